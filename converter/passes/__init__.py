"""What runs on the IR between translation and writing. A pass never changes the model it is given."""

"""Many models: a process for each, any executor for where they run, a row of results for each."""

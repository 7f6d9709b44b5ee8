"""``mmdeploy``: the operators of MMDeploy's exporter."""

"""Search over whole counts alone: nodes and replicas, with the loads of request sizes projected out of the model."""

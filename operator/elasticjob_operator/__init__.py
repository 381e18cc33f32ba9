"""The operator: watches ElasticJobs, makes their pods and gives each as many nodes as serve it best."""

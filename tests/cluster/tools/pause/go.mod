module elasticjob.dev/tests/cluster/tools/pause

go 1.21

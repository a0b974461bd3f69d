module github.com/garrison-fleet/garrison/e2e

go 1.26.0

require (
	github.com/garrison-fleet/garrison/proto v0.0.0
	github.com/garrison-fleet/garrison/pkg v0.0.0
	github.com/garrison-fleet/garrison/services/registry v0.0.0
	github.com/garrison-fleet/garrison/services/image-catalog v0.0.0
	github.com/garrison-fleet/garrison/services/task-dispatcher v0.0.0
	github.com/garrison-fleet/garrison/services/executor v0.0.0
	github.com/garrison-fleet/garrison/services/operator v0.0.0
	github.com/garrison-fleet/garrison/deploy/allinone v0.0.0
)

replace (
	github.com/garrison-fleet/garrison/proto => ../proto
	github.com/garrison-fleet/garrison/pkg => ../pkg
	github.com/garrison-fleet/garrison/services/registry => ../services/registry
	github.com/garrison-fleet/garrison/services/image-catalog => ../services/image-catalog
	github.com/garrison-fleet/garrison/services/task-dispatcher => ../services/task-dispatcher
	github.com/garrison-fleet/garrison/services/executor => ../services/executor
	github.com/garrison-fleet/garrison/services/operator => ../services/operator
	github.com/garrison-fleet/garrison/deploy/allinone => ../deploy/allinone
)

module github.com/garrison-fleet/garrison/deploy/allinone

go 1.26.0

require (
	github.com/garrison-fleet/garrison/proto v0.0.0
	github.com/garrison-fleet/garrison/pkg v0.0.0
	github.com/garrison-fleet/garrison/services/registry v0.0.0
	github.com/garrison-fleet/garrison/services/image-catalog v0.0.0
	github.com/garrison-fleet/garrison/services/task-dispatcher v0.0.0
)

replace (
	github.com/garrison-fleet/garrison/proto => ../../proto
	github.com/garrison-fleet/garrison/pkg => ../../pkg
	github.com/garrison-fleet/garrison/services/registry => ../../services/registry
	github.com/garrison-fleet/garrison/services/image-catalog => ../../services/image-catalog
	github.com/garrison-fleet/garrison/services/task-dispatcher => ../../services/task-dispatcher
)

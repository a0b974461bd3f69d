module github.com/garrison-fleet/garrison/services/executor

go 1.26.0

require (
	github.com/garrison-fleet/garrison/proto v0.0.0
	github.com/garrison-fleet/garrison/pkg v0.0.0
)

replace (
	github.com/garrison-fleet/garrison/proto => ../../proto
	github.com/garrison-fleet/garrison/pkg => ../../pkg
)

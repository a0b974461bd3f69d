// Package versions builds garrison versions, which compares the versions of the client, services, executors and agents.
package versions

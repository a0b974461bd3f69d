package display

import (
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type unknownServer = *registryv1.UnknownServer

// UnknownServers lists senders of beats that are not under management.
var UnknownServers = output.Listing[unknownServer]{
	Name: func(u unknownServer) string { return u.GetServerId() },
	Columns: []output.Column[unknownServer]{
		{Title: "ID", Value: func(v output.View, u unknownServer) string { return u.GetServerId() }},
		output.Col("NAME", unknownServer.GetName),
		output.Col("HOST", unknownServer.GetHostname),
		output.Col("STATE", unknownServer.GetCode),
		output.Since("SINCE", unknownServer.GetSince),
		output.Col("NEXT", unknownNext),
		output.Col("REASON", unknownServer.GetReason),
		{Title: "HEARD", Wide: true, Value: func(v output.View, u unknownServer) string {
			return output.Age(v,
				u.GetHeardAt())
		}},
		output.Wide("CELL", unknownServer.GetCell),
		output.Wide("EXECUTOR", unknownServer.GetExecutorVersion),
	},
}

// unknownNext returns what an operator can do about an unmanaged sender of beats.
func unknownNext(u unknownServer) string {
	switch u.GetCode() {
	case code.StillRuns:
		return "executor status on that machine; garrison server show " + u.GetServerId()
	case code.OtherCell:
		return "garrison server show " + u.GetServerId()
	case code.NotEnrolled:
		return "garrison server forget " + u.GetServerId() + ", then treat it as unknown"
	}
	return "on that machine: stop its executor and agents, delete its root, then executor join with a token of " +
		"garrison server enroll NAME"
}

package operator

import (
	"cmp"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

type unknownServer = *registryv1.UnknownServer

var unknownListing = listing[unknownServer]{
	name: func(u unknownServer) string { return u.GetServerId() },
	columns: []column[unknownServer]{
		{title: "ID", value: func(v view, u unknownServer) string { return u.GetServerId() }},
		{title: "NAME", value: func(_ view, u unknownServer) string { return u.GetName() }},
		{title: "HOST", value: func(_ view, u unknownServer) string { return u.GetHostname() }},
		{title: "STATE", value: func(_ view, u unknownServer) string { return u.GetCode() }},
		{
			title: "SINCE", value: func(v view, u unknownServer) string { return age(v, u.GetSince()) },
			key: func(u unknownServer) string { return stamp(u.GetSince()) },
		},
		{title: "NEXT", value: func(_ view, u unknownServer) string { return unknownNext(u) }},
		{title: "REASON", value: func(_ view, u unknownServer) string { return u.GetReason() }},
		{title: "HEARD", wide: true, value: func(v view, u unknownServer) string { return age(v, u.GetHeardAt()) }},
		{title: "CELL", wide: true, value: func(_ view, u unknownServer) string { return u.GetCell() }},
		{title: "EXECUTOR", wide: true, value: func(_ view, u unknownServer) string { return u.GetExecutorVersion() }},
	},
}

// unknownNext says what a person can do about a sender of beats that is not under management.
func unknownNext(u unknownServer) string {
	switch u.GetCode() {
	case "STILL_RUNS":
		return "executor status there; garrison server show " + u.GetServerId()
	case "OTHER_CELL":
		return "garrison server show " + u.GetServerId()
	case "NOT_ENROLLED":
		return "garrison server forget " + u.GetServerId() + ", then as an unknown one"
	}
	return "there: stop its executor and agents, delete its root, and executor join with a token of " +
		"garrison server enroll NAME"
}

func whyUnknown(v view, u unknownServer) why {
	return why{
		What: "unknown", Name: u.GetServerId(), Is: cmp.Or(u.GetHostname(), u.GetName()), State: u.GetCode(),
		Since: stamp(u.GetSince()), age: age(v, u.GetSince()), Next: unknownNext(u), Reason: u.GetReason(),
	}
}

// listUnknown lists who beats and is not under management.
func (s *session) listUnknown(c *cobra.Command) error {
	for _, other := range []string{"env", "label", "life", "presence", "leaked", "found", "cursor", "limit"} {
		if c.Flags().Changed(other) {
			return usage("--unknown and --%s exclude each other: of an unknown server nothing is recorded", other)
		}
	}
	q := &registryv1.ListUnknownServersRequest{}
	r, err := call[*registryv1.ListUnknownServersResponse](c.Context(), s, "ListUnknownServers", q)
	if err != nil {
		return err
	}
	if err := show(s, unknownListing, r, r.GetServers()); err != nil {
		return err
	}
	if r.GetMore() {
		s.say("there are more, and only so many are kept")
	}
	return nil
}

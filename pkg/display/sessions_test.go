package display_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
)

func TestConnectionsAreExplainedWhenAnotherMachineMayHoldTheCredentials(t *testing.T) {
	open := func(addresses ...string) *accessv1.ServerSessions {
		s := &accessv1.ServerSessions{}
		for _, a := range addresses {
			s.Sessions = append(s.Sessions, &accessv1.Session{Address: a, Since: timestamppb.Now()})
		}
		return s
	}
	surplus := open("10.0.0.1:4")
	surplus.Ended = 2
	for _, c := range []struct {
		name     string
		sessions *accessv1.ServerSessions
		is       string
	}{
		{"an executor's own", open("10.0.0.1:4", "10.0.0.1:5"), ""},
		{"none", &accessv1.ServerSessions{Ended: 3}, ""},
		{"two machines", open("10.0.0.1:4", "10.0.0.2:5"), "2 from 10.0.0.1, 10.0.0.2"},
		{"surplus ones", surplus, "1 from 10.0.0.1"},
	} {
		e, suspicious := display.ExplainSessions(nil, c.sessions)
		if suspicious != (c.is != "") || e.Is != c.is {
			t.Errorf("%s: %t, %q; want %q", c.name, suspicious, e.Is, c.is)
		}
	}
}

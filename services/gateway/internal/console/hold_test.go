package console

import (
	"testing"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The page of a server ends only a hold of that server; a wider one, or a pause of the site, is ended among the holds.
func TestAServersPageEndsOnlyItsOwnHolds(t *testing.T) {
	t.Parallel()
	s := &serverv1.Server{Id: "0195d5a0-0000-7000-8000-000000000001", Name: "web-1"}
	for what, c := range map[string]struct {
		hold         *holdv1.Hold
		forms, wider bool
	}{
		"of the server": {&holdv1.Hold{Agent: "beacon", On: &intentv1.Selector{Servers: []string{s.Id}}}, true, false},
		"of two servers": {&holdv1.Hold{
			Agent: "beacon", On: &intentv1.Selector{Servers: []string{s.Id, "0195d5a0-0000-7000-8000-000000000002"}},
		}, false, true},
		"of an environment": {&holdv1.Hold{Agent: "beacon", On: &intentv1.Selector{Environment: "prod"}}, false, true},
		"of the site":       {&holdv1.Hold{On: &intentv1.Selector{All: true}}, false, true},
	} {
		c.hold.Id = "0195d5a0-0000-7000-8000-00000000000f"
		rows := []display.Instance{{Instance: &instancev1.Instance{Agent: "beacon"}, Hold: c.hold}}
		forms, wider := unholds(&visit{role: topology.Operator}, s, rows)
		if len(forms) > 0 != c.forms || len(wider) > 0 != c.wider {
			t.Errorf("a hold %s: the forms %v and the links %v", what, forms, wider)
		}
	}
}

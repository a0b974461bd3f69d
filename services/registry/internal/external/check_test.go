package external

import (
	"fmt"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

func TestAWantedVersionNamesWhatItIsOf(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for n := range 257 {
		many[fmt.Sprint("vm-", n)] = "1"
	}
	for _, wanted := range []map[string]string{
		{"": "1"}, {"env=": "1"}, {"env=NO": "1"}, {"a b": "1"}, {"all": ""}, {"all": "a\nb"}, many,
	} {
		a := &agentv1.Agent{Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "lister", Wanted: wanted}
		if have := CheckAgent(a).GetCode(); have != code.Invalid {
			t.Errorf("%d versions, %.40v: %q", len(wanted), wanted, have)
		}
	}
	daemon := &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON, Wanted: map[string]string{"all": "1"}}
	if have := CheckAgent(daemon).GetCode(); have != code.UnsupportedKind {
		t.Errorf("of a daemon: %q", have)
	}
}

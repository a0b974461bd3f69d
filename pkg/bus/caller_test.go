package bus

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// An act is filed under the id of its request, for ever: never of another person's.
func TestARequestIsNeverFiledUnderAnIDOfAnother(t *testing.T) {
	t.Parallel()
	const intent = "0197b5a0-0000-7000-8000-000000000001" // of alice
	header := func(id, trace string) map[string][]string {
		return map[string][]string{ledger.HeaderRequest: {id}, ledger.HeaderTrace: {trace}}
	}
	bob, again := callerOf("bob", header(intent, "")), callerOf("bob", header(intent, ""))
	carol := callerOf("carol", header(intent, ""))
	if bob.Request == intent || bob.Request == carol.Request {
		t.Errorf("bob's request is %s, carol's %s; alice's intent %s", bob.Request, carol.Request, intent)
	}
	if bob.Request != again.Request || !ident.IsUUID(bob.Request) {
		t.Errorf("bob's request is %s, repeated %s", bob.Request, again.Request)
	}
	for _, id := range []string{"", "x", strings.Repeat("a", 2000), "\x1b[31m", strings.ToUpper(intent)} {
		c := callerOf("bob", header(id, strings.Repeat("\x1b", 2000)))
		if !ident.IsUUID(c.Request) || c.Request == callerOf("bob", header(id, "")).Request || c.Trace != "" {
			t.Errorf("with id %.20q: request %q, trace %.20q", id, c.Request, c.Trace)
		}
	}
}

package agent_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/noun/agent"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

func TestEveryKindHasItsWord(t *testing.T) {
	for n, name := range agentv1.Kind_name {
		want := strings.ToLower(strings.TrimPrefix(name, "KIND_"))
		if n == 0 {
			want = ""
		}
		if have := agent.KindWord(agentv1.Kind(n)); have != want {
			t.Errorf("%s is %q, want %q", name, have, want)
		}
	}
}

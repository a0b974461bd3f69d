package verify_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/e2e/rig/verify"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestATaskStartsOnceAndEndsOnItsServerOnceItIsAssigned(t *testing.T) {
	queued, assigned := &taskv1.Queued{ServerId: "s", Agent: "a", InstanceId: "i"}, &taskv1.Assigned{}
	for name, c := range map[string]struct {
		facts []proto.Message
		want  string
	}{
		"in order":        {[]proto.Message{queued, assigned, &taskv1.Started{}, &taskv1.Succeeded{}}, ""},
		"expired at once": {[]proto.Message{queued, assigned, &taskv1.Expired{}}, ""},
		"without a start": {[]proto.Message{queued, assigned, &taskv1.Undone{}}, ""},
		"never assigned":  {[]proto.Message{queued, &taskv1.Undone{}}, "undone and never assigned"},
		"started twice": {
			[]proto.Message{queued, assigned, &taskv1.Started{}, &taskv1.Started{}, &taskv1.Failed{}}, "started twice",
		},
		"started after its end": {
			[]proto.Message{queued, assigned, &taskv1.Expired{}, &taskv1.Started{}}, "started after its end",
		},
	} {
		var facts []ledger.Fact
		for i, body := range c.facts {
			facts = append(facts, ledger.Fact{
				Noun: ledger.Task, Key: "t", Body: body, ID: string(rune('a' + i)), Sequence: uint64(i + 1),
				Source: ledger.Task.Writer(), Actor: "x",
			})
		}
		broken := verify.Check(facts, nil)
		switch {
		case c.want == "" && len(broken) == 0:
		case c.want != "" && len(broken) == 1 && strings.Contains(broken[0].Error(), c.want):
		default:
			t.Errorf("%s: %v, want %q", name, broken, c.want)
		}
	}
}

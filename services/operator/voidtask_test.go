package operator

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The registry decided anew about an agent, and a dispatcher that did not see it yet assigned a task at once.
func TestAnAssignmentThatCameTooLateIsNoTask(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), annsDirectory(t)
	w := r.bus.Writer(t, r.bus.Dial(t, "another"))
	write := func(noun ledger.Noun, key string, body proto.Message) {
		t.Helper()
		f := ledger.Fact{Noun: noun, Key: key, ID: ident.New(), At: noon, Source: noun.Writer(), Body: body}
		f.Actor = f.Source
		if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
			t.Fatal(err)
		}
	}
	to := &imagev1.Ref{Version: "1.0.0"}
	write(ledger.Instance, ledger.Key(web2, "web"), &instancev1.Wanted{InstanceId: "i", Generation: 1, Image: to})
	for want, generation := range map[string]uint64{"assigned": 1, "is void": 7} {
		id := ident.From("task", want)
		write(ledger.Task, id, &taskv1.Assigned{Opened: &taskv1.Queued{
			Verb: taskv1.Verb_VERB_INSTALL, ServerId: web2, Agent: "web", To: to,
			InstanceId: "i", Generation: generation,
		}})
		code, _, said := r.execute(t, dir, "task show "+id)
		if !strings.Contains(said, want) || (code == 0) != (generation == 1) {
			t.Errorf("generation %d: %d: %s", generation, code, said)
		}
	}
}

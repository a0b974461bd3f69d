package dispatcher

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// fullMetadata returns as much metadata as one instance may have.
func fullMetadata(t *testing.T) *instancev1.Configuration {
	all := map[string]string{}
	for n := range 8 {
		all[fmt.Sprint("value", n)] = strings.Repeat("x", metadata.MaxValue-8)
	}
	if err := metadata.Check(all); err != nil {
		t.Fatal(err)
	}
	return &instancev1.Configuration{Metadata: all, Digest: metadata.Digest(all)}
}

func (w *world) wantWith(
	server, agent string,
	generation uint64,
	image *imagev1.Ref,
	c *instancev1.Configuration,
) ledger.Draft {
	return ledger.Free(testFact(ledger.Instance, ledger.Key(server, agent), &instancev1.Wanted{
		InstanceId: instanceID(server, agent), Generation: generation, Image: image, Configuration: c,
	}))
}

// The metadata of thirty-two agents, each with as much as it may have, exceed one message. A change
// without room ends with a code, all others succeed, and the server is never cut off.
func TestAChangeThatMakesADocumentTooLargeIsRefusedAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	w.execute(nil)
	const agents = 32
	full, facts, images := fullMetadata(t), []ledger.Draft{}, map[string]*imagev1.Ref{}
	for n := range agents {
		name := fmt.Sprint("agent-", n)
		images[name] = w.image(name, "1.0.0")
		facts = append(facts, w.wantWith(s, name, 1, images[name], full))
	}
	w.sayAll(facts)
	states := map[taskv1.State]int{}
	var refused *taskv1.Task
	polltest.Eventually(t, "every task ended", func() bool {
		clear(states)
		for _, x := range w.tasks(d, s) {
			if states[x.State]++; x.State == taskv1.State_STATE_CANCELLED {
				refused = x
			}
		}
		return states[taskv1.State_STATE_SUCCEEDED]+states[taskv1.State_STATE_CANCELLED] == agents
	})
	if o := refused.GetOutcome(); o.GetCode() != code.ServerFull ||
		!strings.Contains(o.GetReason(), "983040 are the most") {
		t.Fatalf("of %v one ended with %v", states, o)
	}
	came := states[taskv1.State_STATE_SUCCEEDED]
	polltest.Eventually(t, "the document has all admitted entries",
		func() bool { return len(w.document(s).GetEntries()) == came })
	if size := proto.Size(w.document(s)); size > view.MaxDocument || size < view.MaxDocument*9/10 {
		t.Errorf("the document has %d bytes", size)
	}

	// A removal makes room, and the refused change succeeds when it is requested again.
	gone := w.document(s).Entries[0].Agent
	w.unwant(s, gone, 2)
	w.awaitTask(d, s, gone, 2, taskv1.State_STATE_SUCCEEDED)
	w.sayAll([]ledger.Draft{w.wantWith(s, refused.Agent, 2, images[refused.Agent], full)})
	w.awaitTask(d, s, refused.Agent, 2, taskv1.State_STATE_SUCCEEDED)
}

package simulation

import (
	"fmt"
	"testing"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// with returns an engine that has image a and a fault.
func with(t *testing.T, fault Fault) *engine {
	t.Helper()
	root, err := layout.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := opened(t, root)
	e.fault = fault
	e.memory.Agents["web"] = installed{InstanceID: "i", ImageID: "a", Version: "1.0.0"}
	return e
}

func asking(task, image, version string) *desiredv1.Document {
	return &desiredv1.Document{ServerId: "s", Generation: 9, Entries: []*desiredv1.Entry{{
		Agent: "web", InstanceId: "i", TaskId: task, Image: &imagev1.Manifest{Id: image, Version: version},
	}}}
}

func TestAChangeHangsUntilTheDocumentAsksForAnotherOne(t *testing.T) {
	e := with(t, Hanging)
	e.take(t.Context(), asking("t1", "b", "2.0.0"))
	e.take(t.Context(), asking("t1", "b", "2.0.0"))
	if !e.busy["web"] || e.seen.Begun.Load() != 1 {
		t.Fatalf("busy %v, %d begun; want one change that hangs", e.busy, e.seen.Begun.Load())
	}
	e.take(t.Context(), asking("t2", "a", "1.0.0"))
	a := <-e.done
	if e.finish(a); a.TaskID() != "t2" || e.memory.Ended[0].State != taskv1.State_STATE_SUCCEEDED {
		t.Errorf("%v ended as %v; want that the server went back", a.TaskID(), e.memory.Ended)
	}
	if tried := e.truth().Tried; len(tried) != 2 {
		t.Errorf("tried %v, want both versions", tried)
	}
}

func TestABadVersionIsRolledBackAndOthersAreNot(t *testing.T) {
	e := with(t, Healthy)
	e.settings.Bad = Bad{"2.0.0", 1}
	for version, want := range map[string]taskv1.State{
		"2.0.0": taskv1.State_STATE_UNDONE, "3.0.0": taskv1.State_STATE_SUCCEEDED,
	} {
		entry := asking("t", "b", version).Entries[0]
		if have, _ := e.outcome(plan.Action{Entry: entry}); have != want {
			t.Errorf("%s ends as %v, want %v", version, have, want)
		}
	}
}

func TestABadVersionHitsItsShareOfTheServers(t *testing.T) {
	hit := 0
	for _, name := range names(2000) {
		if (Bad{"2.0.0", 0.1}).hits(1, name, "2.0.0") {
			hit++
		}
	}
	if hit < 140 || hit > 260 {
		t.Errorf("%d of 2000 servers are hit, want about 200", hit)
	}
}

func TestAServerVanishesOnceItsAgentIsReported(t *testing.T) {
	e := with(t, Vanishing)
	e.update(func(m *memory) { e.sayAgents(m, "") })
	if e.vanished() {
		t.Error("it has gone although a report waits")
	}
	if err := e.Acknowledge(1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.left.C():
	default:
		t.Error("it stays although every report was acknowledged")
	}
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("sim-%05d", i))
	}
	return out
}

package dispatcher

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
)

func TestAnInstallTravelsFromWantedToSucceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	w.execute(nil)
	s := serverID(1)
	w.enrol(s)
	img := w.image("shipper", "1.0.0")
	w.want(s, "shipper", 1, img)
	got := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	if got.Verb != taskv1.Verb_VERB_INSTALL {
		t.Errorf("verb is %v, want install", got.Verb)
	}
	polltest.Eventually(t, "the entry names no task", func() bool {
		e := w.document(s).GetEntries()
		return len(e) == 1 && e[0].TaskId == "" && e[0].Image.GetId() == img.Id
	})
}

func TestARolledBackUpgradeRestoresTheOldImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	w.execute(func(v taskv1.Verb, _ string) taskv1.State {
		if v == taskv1.Verb_VERB_UPGRADE {
			return taskv1.State_STATE_UNDONE
		}
		return taskv1.State_STATE_SUCCEEDED
	})
	s := serverID(1)
	w.enrol(s)
	before, after := w.image("shipper", "1.0.0"), w.image("shipper", "2.0.0")
	w.want(s, "shipper", 1, before)
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	w.want(s, "shipper", 2, after)
	got := w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_UNDONE)
	if got.From.GetId() != before.Id || got.To.GetId() != after.Id {
		t.Errorf("the upgrade goes from %v to %v", got.From, got.To)
	}
	polltest.Eventually(t, "the entry is at the old image and its generation", func() bool {
		e := w.document(s).GetEntries()
		return len(e) == 1 && e[0].TaskId == "" && e[0].Image.GetId() == before.Id && e[0].Generation == 1
	})
}

func TestARemovalIsInTheDocumentUntilTheInstanceIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	x := w.execute(nil)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	x.pause()
	w.unwant(s, "shipper", 2)
	removal := w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_ASSIGNED)
	polltest.Eventually(t, "the document has a removal and no entry", func() bool {
		doc := w.document(s)
		return len(doc.GetEntries()) == 0 && len(doc.GetRemovals()) == 1 && doc.Removals[0].TaskId == removal.Id &&
			doc.Removals[0].InstanceId == instanceID(s, "shipper")
	})
	w.report(s, removal.Id, taskv1.State_STATE_SUCCEEDED, nil)
	polltest.Eventually(t, "the document has no removal",
		func() bool { return len(w.document(s).GetRemovals()) == 0 })
}

func TestARefreshIsRequestedUnderItsTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	w.execute(nil)
	s := serverID(1)
	w.enrol(s)
	intent := ident.New()
	w.say(ledger.Intent, intent, &intentv1.Accepted{
		Intent:    &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{}}},
		ServerIds: []string{s, serverID(404)}, Changed: 1,
	})
	polltest.Eventually(t, "one task, which succeeded", func() bool {
		all := w.tasks(d, s)
		return len(all) == 1 && all[0].Id == opening.RefreshID(intent, s) &&
			all[0].State == taskv1.State_STATE_SUCCEEDED
	})
	if all := w.tasks(d, serverID(404)); len(all) > 0 {
		t.Errorf("an unknown server got %v", all)
	}
}

func TestAQueuedTaskIsSupersededByANewerChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	w.say(ledger.Server, s, &serverv1.Offline{})
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_QUEUED)
	w.want(s, "shipper", 2, w.image("shipper", "2.0.0"))
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUPERSEDED)
	got := w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_QUEUED)
	if !strings.Contains(got.Reason, "server offline since ") {
		t.Errorf("the reason is %q", got.Reason)
	}
}

func TestATaskThatWasAssignedBeforeAPauseOfTheSiteBeginsInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	before, later := serverID(1), serverID(2)
	w.enrol(before)
	w.enrol(later)
	image := w.image("shipper", "1.0.0")
	w.want(before, "shipper", 1, image)
	w.awaitTask(d, before, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	pause := hold.ID("", hold.Site())
	w.say(ledger.Hold, pause, &holdv1.Hold{
		On: hold.Site(), Until: timestamppb.New(time.Now().Add(time.Hour)),
	})
	w.want(later, "shipper", 1, image)
	if got := w.awaitTask(d, later, "shipper", 1, taskv1.State_STATE_QUEUED); !strings.Contains(got.Reason, "paused") {
		t.Errorf("the reason is %q", got.Reason)
	}
	w.execute(nil).converge(before) // it comes back, and reads its document
	w.awaitTask(d, before, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	w.awaitTask(d, later, "shipper", 1, taskv1.State_STATE_QUEUED)
	w.say(ledger.Hold, pause, &holdv1.Unset{})
	w.awaitTask(d, later, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
}

func TestANewerChangeWaitsWhileTheOlderOneIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	first := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.want(s, "shipper", 2, w.image("shipper", "2.0.0"))
	second := w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_QUEUED)
	if !strings.Contains(second.Reason, ident.Short(first.Id)) {
		t.Errorf("the reason is %q", second.Reason)
	}
	w.report(s, first.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_ASSIGNED)
}

func TestAnExpiredTaskIsRetriedWhenItsServerIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, stop := w.start(Config{TaskDeadline: 100 * time.Millisecond})
	s := serverID(1)
	w.enrol(s)
	img := w.image("shipper", "1.0.0")
	w.want(s, "shipper", 1, img)
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_EXPIRED)
	polltest.Eventually(t, "the entry stays, without a task", func() bool {
		e := w.document(s).GetEntries()
		return len(e) == 1 && e[0].TaskId == ""
	})
	stop()
	d, _ = w.start(Config{}) // the second attempt has the time that a busy machine takes
	w.say(ledger.Server, s, &serverv1.Offline{})
	w.execute(nil)
	w.say(ledger.Server, s, &serverv1.Online{})
	got := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	if got.Attempt != 2 || got.Verb != taskv1.Verb_VERB_INSTALL {
		t.Errorf("want the second attempt to install, have attempt %d to %v", got.Attempt, got.Verb)
	}
}

func TestAQueuedTaskExpiresWhenItsServerStaysOffline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{QueuedDeadline: 100 * time.Millisecond, TaskDeadline: 200 * time.Millisecond})
	s := serverID(1)
	w.enrol(s)
	w.say(ledger.Server, s, &serverv1.Offline{})
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_EXPIRED)
	if len(w.document(s).GetEntries()) > 0 {
		t.Error("a change that was never admitted has an entry")
	}
}

func TestADeadServerHasATombstone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	w.execute(nil)
	s := serverID(1)
	w.enrol(s)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	w.say(ledger.Server, s, &serverv1.Dying{})
	w.unwant(s, "shipper", 2)
	w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_SUCCEEDED)
	proof := &serverv1.Tombstone{ServerId: s, Cell: "main", Signature: []byte("signed")}
	w.say(ledger.Server, s, &serverv1.Dead{Tombstone: proof})
	polltest.Eventually(t, "a tombstone", func() bool {
		doc := w.document(s)
		return doc.GetLife() == serverv1.Life_LIFE_DEAD && proto.Equal(doc.Tombstone, proof) &&
			len(doc.Entries)+len(doc.Removals)+len(doc.Requests) == 0
	})
}

func TestAgentsAreInstalledByTierAndDependency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := serverID(1)
	w.enrol(s)
	w.agent("base", 1)
	w.agent("lib", 5)
	w.agent("app", 2, "lib")
	w.agent("top", 3)
	img := w.image("any", "1.0.0")
	for _, agent := range []string{"top", "app", "lib", "base"} {
		w.want(s, agent, 1, img)
	}
	d, _ := w.start(Config{})
	for _, agent := range []string{"base", "lib", "app", "top"} {
		got := w.awaitTask(d, s, agent, 1, taskv1.State_STATE_ASSIGNED)
		for _, other := range w.tasks(d, s) {
			if task.UnderWay(other.State) && other.Id != got.Id {
				t.Errorf("%s is under way beside %s", other.Agent, agent)
			}
		}
		w.report(s, got.Id, taskv1.State_STATE_SUCCEEDED, nil)
	}
}

func TestAnUnchangedDocumentIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, stop := w.start(Config{})
	w.execute(nil)
	s := serverID(1)
	w.enrol(s)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	w.settles(d)
	same(t, w, d, s)
	end := w.desiredEnd()
	stop()
	again, _ := w.start(Config{})
	w.enrol(serverID(2)) // its document is written after the look at the first
	polltest.Eventually(t, "the second server's document", func() bool { return w.document(serverID(2)) != nil })
	polltest.Eventually(t, "no document is to be written", func() bool { return again.publisher.changed.idle() })
	same(t, w, again, s)
	if got := w.sequenceOf(s); got > end {
		t.Errorf("the document was written again, at %d", got)
	}
}

// same waits until the stored document is the view's projection.
func same(t testing.TB, w *world, d *Dispatcher, server string) {
	t.Helper()
	polltest.Eventually(t, "the stored document is the view's projection", func() bool {
		_, want, err := d.publisher.project(server)
		if err != nil {
			t.Fatal(err)
		}
		have, err := proto.MarshalOptions{Deterministic: true}.Marshal(w.document(server))
		return err == nil && string(have) == string(want)
	})
}

// A bus with a single server acknowledges documents before they are on its disk.
func TestADocumentThatTheBusLostIsWrittenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s, other := serverID(1), serverID(2)
	w.enrol(s, other)
	w.want(other, "shipper", 1, w.image("shipper", "1.0.0"))
	w.awaitTask(d, other, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.bus.Forget(t, topology.Desired, func() {
		w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
		polltest.Eventually(t, "the entry", func() bool { return len(w.document(s).GetEntries()) == 1 })
	})
	polltest.Eventually(t, "the entry again", func() bool { return len(w.document(s).GetEntries()) == 1 })
	same(t, w, d, s)
	same(t, w, d, other)
}

package view

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// tale is a server with one agent, folded fact by fact.
type tale struct {
	*View
	t    *testing.T
	last uint64
}

func (s *tale) fold(noun ledger.Noun, key string, body proto.Message) {
	s.t.Helper()
	s.last++
	if !s.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(s.last), 0), Sequence: s.last}) {
		s.t.Fatalf("fact %d does not fit: %v", s.last, body)
	}
}

// wants records that an image is wanted with a log level, assigns the task that follows, and returns
// its verb.
func (s *tale) wants(generation uint64, image, level string) (id string, verb taskv1.Verb) {
	s.t.Helper()
	w := &instancev1.Wanted{InstanceId: "x", Generation: generation, Image: &imagev1.Ref{Id: image}}
	if level != "" {
		w.Configuration = &instancev1.Configuration{Metadata: map[string]string{"level": level}, Digest: []byte(level)}
	}
	s.fold(ledger.Instance, "s.a", w)
	return s.assign()
}

func (s *tale) assign() (id string, verb taskv1.Verb) {
	s.t.Helper()
	o := s.Queue.Openings(9)
	if len(o) != 1 {
		s.t.Fatalf("%d tasks are due", len(o))
	}
	s.fold(ledger.Task, o[0].ID, o[0].Body)
	s.fold(ledger.Task, o[0].ID, &taskv1.Assigned{})
	return o[0].ID, o[0].Body.Verb
}

// shows returns the document's entry for the agent.
func (s *tale) shows() string {
	d, _ := s.Rows.Document("s")
	if len(d.GetEntries()) != 1 {
		return fmt.Sprint(len(d.GetEntries()), " entries")
	}
	e := d.Entries[0]
	return fmt.Sprintf("%s %s %s %d", e.Image.Id, e.Metadata["level"], e.ConfigurationDigest, e.Generation)
}

func newTale(t *testing.T) *tale {
	s := &tale{View: newStoryView(), t: t}
	s.fold(ledger.Server, "s", &serverv1.Invited{Cell: "main"})
	s.fold(ledger.Server, "s", &serverv1.Enrolled{})
	s.fold(ledger.Server, "s", &serverv1.Online{})
	for _, i := range []string{"i1", "i2"} {
		s.fold(ledger.Image, i, &imagev1.Created{Manifest: &imagev1.Manifest{Id: i}})
	}
	return s
}

// The document shows the configuration under way, and after a rollback the last healthy one.
func TestADocumentFollowsTheConfigurationThroughChangesAndRollbacks(t *testing.T) {
	const install, upgrade, configure = taskv1.Verb_VERB_INSTALL, taskv1.Verb_VERB_UPGRADE, taskv1.Verb_VERB_CONFIGURE
	s := newTale(t)
	for n, c := range []struct {
		image, level string
		verb         taskv1.Verb
		ends         proto.Message
		during       string
		after        string
	}{
		{"i1", "info", install, &taskv1.Succeeded{}, "i1 info info 1", "i1 info info 1"},
		{"i1", "debug", configure, &taskv1.Succeeded{}, "i1 debug debug 2", "i1 debug debug 2"},
		{"i1", "bad", configure, &taskv1.Undone{}, "i1 bad bad 3", "i1 debug debug 2"},
		{"i1", "bad", configure, &taskv1.Failed{}, "i1 bad bad 4", "i1 debug debug 2"},
		{"i2", "worse", upgrade, &taskv1.Undone{}, "i2 worse worse 5", "i1 debug debug 2"},
		{"i1", "debug", upgrade, &taskv1.Succeeded{}, "i1 debug debug 6", "i1 debug debug 6"}, // as it is, once more
		{"i1", "", configure, &taskv1.Succeeded{}, "i1   7", "i1   7"},
		{"i1", "bad", configure, &taskv1.Undone{}, "i1 bad bad 8", "i1   7"},
		{"i1", "", configure, &taskv1.Succeeded{}, "i1   9", "i1   9"}, // what was undone is taken back
		{"i1", "", upgrade, &taskv1.Succeeded{}, "i1   10", "i1   10"},
	} {
		id, verb := s.wants(uint64(n+1), c.image, c.level)
		if verb != c.verb || s.shows() != c.during {
			t.Fatalf("change %d: %s, and the document shows %q; want %s and %q", n+1, verb, s.shows(), c.verb, c.during)
		}
		s.fold(ledger.Task, id, c.ends)
		if s.shows() != c.after {
			t.Fatalf("after change %d the document shows %q, want %q", n+1, s.shows(), c.after)
		}
	}
}

// A configuration that is wanted meanwhile belongs to the next task, not to the one under way.
func TestATaskHasTheConfigurationOfItsOwnGeneration(t *testing.T) {
	s := newTale(t)
	s.wants(1, "i1", "info")
	s.fold(ledger.Instance, "s.a", &instancev1.Wanted{
		InstanceId: "x", Generation: 2, Image: &imagev1.Ref{Id: "i1"},
		Configuration: &instancev1.Configuration{
			Metadata: map[string]string{"level": "debug"},
			Digest:   []byte("debug"),
		},
	})
	if s.shows() != "i1 info info 1" {
		t.Errorf("the document shows %q", s.shows())
	}
}

// An expired change leaves the server in an unknown state; a second attempt rolls back to the state
// before the first.
func TestASecondAttemptRollsBackToTheStateBeforeTheFirst(t *testing.T) {
	s := newTale(t)
	id, _ := s.wants(1, "i1", "info")
	s.fold(ledger.Task, id, &taskv1.Succeeded{})
	id, _ = s.wants(2, "i1", "debug")
	s.fold(ledger.Task, id, &taskv1.Expired{})
	if s.shows() != "i1 debug debug 2" {
		t.Fatalf("after it expired the document shows %q", s.shows())
	}
	s.fold(ledger.Server, "s", &serverv1.Offline{})
	s.fold(ledger.Server, "s", &serverv1.Online{})
	id, verb := s.assign()
	s.fold(ledger.Task, id, &taskv1.Undone{})
	if verb != taskv1.Verb_VERB_CONFIGURE || s.shows() != "i1 info info 1" {
		t.Errorf("%s, and the document shows %q", verb, s.shows())
	}
}

package logview_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/logview"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

var here = topology.ServerAddress{Cell: "main", Server: "0197b5a0-0000-7000-8000-000000000001"}

// desk is a server that answers, the registry, and a viewer, each with the login of a real one.
type desk struct {
	t        *testing.T
	bus      *bustest.Guarded
	root     layout.Root
	registry *bus.Conn
	ann      *bus.Conn
	now      atomic.Int64 // nanoseconds that the clock of the server is ahead
	secrets  map[string]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	g := bustest.StartGuarded(t)
	d := &desk{t: t, bus: g, root: layout.Root(t.TempDir()), secrets: map[string]string{"pw": "hunter2"}}
	d.registry, d.ann = g.Service(t, topology.UserRegistry), g.Person(t, "ann", topology.Operator)
	v := logview.New(logview.Config{
		Conn: g.Server(t, here.Server, here.Cell), Address: here, Root: d.root, Log: zerolog.Nop(),
		Secrets: func(string) (map[string]string, error) { return d.secrets, nil },
		Now:     func() time.Time { return time.Now().Add(time.Duration(d.now.Load())) },
	})
	bustest.Go(t, v.Run)
	polltest.Eventually(t, "the server answers", func() bool {
		_, err := d.open("ann", "no-agent", nil)
		return fault.RefusalOf(err).GetCode() == code.NoOutput
	})
	return d
}

func (d *desk) write(agent, text string) {
	d.t.Helper()
	path := d.root.Output(agent)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(text); err != nil {
		d.t.Fatal(err)
	}
}

// open opens a session as the registry does.
func (d *desk) open(actor, agent string, start *logv1.Start) (topology.LogReader, error) {
	r := topology.LogReader{Actor: actor, Session: ident.New()}
	_, err := bus.Ask[*logv1.OpenResponse](d.t.Context(), d.registry, topology.LogOpenSubject(here),
		&logv1.OpenRequest{SessionId: r.Session, Actor: actor, Agent: agent, Start: start})
	return r, err
}

func (d *desk) mustOpen(agent string) topology.LogReader {
	d.t.Helper()
	r, err := d.open("ann", agent, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *desk) read(by *bus.Conn, r topology.LogReader, q *logv1.ReadRequest) (*logv1.ReadResponse, error) {
	return bus.Ask[*logv1.ReadResponse](d.t.Context(), by, topology.LogReadSubject(here, r), q)
}

func TestAReaderSeesWhatAnAgentWroteAndThenWhatItWrites(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "one\ntwo\n")
	r := d.mustOpen("beacon")
	first, err := d.read(d.ann, r, &logv1.ReadRequest{})
	if err != nil || string(first.GetData()) != "one\ntwo\n" || first.GetCut() {
		t.Fatalf("%q, %v", first.GetData(), err)
	}
	none, err := d.read(d.ann, r, &logv1.ReadRequest{Position: first.GetPosition()})
	if err != nil || len(none.GetData()) > 0 || none.GetPosition() != first.GetPosition() {
		t.Fatalf("%q, %v", none.GetData(), err)
	}
	done := make(chan string, 1)
	go func() {
		next, err := d.read(d.ann, r, &logv1.ReadRequest{
			Position: first.GetPosition(), Wait: durationpb.New(logview.LongestWait),
		})
		done <- fmt.Sprint(string(next.GetData()), err)
	}()
	d.write("beacon", "three\n")
	if got := <-done; got != "three\n<nil>" {
		t.Errorf("%q", got)
	}
}

func TestSecretsAreCoveredAlsoBetweenTwoParts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const text = "pw=hunter2\nagain hunter2 hunter2\n"
	d.write("beacon", text)
	want := strings.ReplaceAll(text, "hunter2", "*******")
	r := d.mustOpen("beacon")
	for from := range len(text) {
		got, err := d.read(d.ann, r, &logv1.ReadRequest{Position: uint64(from)})
		if err != nil || string(got.GetData()) != want[from:] || got.GetPosition() != uint64(len(text)) {
			t.Fatalf("from %d on: %q, %v", from, got.GetData(), err)
		}
	}
}

func TestAReadingBeginsAtTheLastLines(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "one\ntwo\nthree\n")
	for lines, want := range map[uint32]string{1: "three\n", 2: "two\nthree\n", 9: "one\ntwo\nthree\n"} {
		r := topology.LogReader{Actor: "ann", Session: ident.New()}
		opened, err := bus.Ask[*logv1.OpenResponse](t.Context(), d.registry, topology.LogOpenSubject(here),
			&logv1.OpenRequest{
				SessionId: r.Session, Actor: "ann", Agent: "beacon", Start: &logv1.Start{Lines: lines},
			})
		if err != nil || opened.GetEnd() != 14 {
			t.Fatalf("%v, %v", opened, err)
		}
		got, err := d.read(d.ann, r, &logv1.ReadRequest{Position: opened.GetPosition()})
		if err != nil || string(got.GetData()) != want {
			t.Errorf("the last %d lines are %q, %v", lines, got.GetData(), err)
		}
	}
}

func TestAPartIsOfOneVersion(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "old\n")
	output := supervise.Output(d.root.Output("beacon"))
	for _, version := range []string{"2.0.0", "2.0.0", "1.0.0"} {
		if err := output.Starts(version); err != nil {
			t.Fatal(err)
		}
		d.write("beacon", "of "+version+"\n")
	}
	r, got := d.mustOpen("beacon"), ""
	for position := uint64(0); ; {
		part, err := d.read(d.ann, r, &logv1.ReadRequest{Position: position})
		if err != nil {
			t.Fatal(err)
		}
		if len(part.GetData()) == 0 {
			break
		}
		got, position = got+part.GetVersion()+": "+string(part.GetData()), part.GetPosition()
	}
	if want := ": old\n2.0.0: of 2.0.0\nof 2.0.0\n1.0.0: of 1.0.0\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTheOutputOfAnUndoneInstallIsReadUntilTheAgentWrites(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "no licence\n")
	output := supervise.Output(d.root.Output("beacon"))
	for range 2 { // again, after a crash
		if err := output.MoveTo(d.root.FailedOutput("beacon")); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"no licence\n", "up\n"} {
		got, err := d.read(d.ann, d.mustOpen("beacon"), &logv1.ReadRequest{})
		if err != nil || string(got.GetData()) != want {
			t.Errorf("%q, %v, want %q", got.GetData(), err, want)
		}
		d.write("beacon", "up\n")
	}
}

func TestOnlyOpenedSessionsAreAnswered(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "secret\n")
	bob := d.bus.Person(t, "bob", topology.Admin)
	opened := d.mustOpen("beacon")
	for name, try := range map[string]struct {
		by *bus.Conn
		r  topology.LogReader
	}{
		"a session that the registry did not open":    {d.ann, topology.LogReader{Actor: "ann", Session: ident.New()}},
		"the session of another person":               {bob, topology.LogReader{Actor: "bob", Session: opened.Session}},
		"a session with a wildcard in place of an id": {d.ann, topology.LogReader{Actor: "ann", Session: "*"}},
	} {
		got, err := d.read(try.by, try.r, &logv1.ReadRequest{})
		if fault.RefusalOf(err).GetCode() != code.LogNotOpen {
			t.Errorf("%s: %q, %v", name, got.GetData(), err)
		}
	}
}

func TestASessionEndsWithItsReader(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "x\n")
	r := d.mustOpen("beacon")
	d.now.Add(int64(logview.IdleFor - time.Second))
	if _, err := d.read(d.ann, r, &logv1.ReadRequest{}); err != nil {
		t.Fatal(err)
	}
	d.now.Add(int64(logview.IdleFor + time.Second))
	if _, err := d.read(d.ann, r, &logv1.ReadRequest{}); fault.RefusalOf(err).GetCode() != code.LogNotOpen {
		t.Errorf("a viewer who left: %v", err)
	}
	r = d.mustOpen("beacon")
	for range int(logview.LastsFor/logview.IdleFor) + 2 {
		d.now.Add(int64(logview.IdleFor - time.Second))
		_, err := d.read(d.ann, r, &logv1.ReadRequest{})
		if err != nil {
			if fault.RefusalOf(err).GetCode() != code.LogNotOpen {
				t.Error(err)
			}
			return
		}
	}
	t.Error("a session goes on forever")
}

func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", strings.Repeat("0123456789abcde\n", logview.PartBytes/8))
	for range logview.MostSessions {
		d.mustOpen("beacon")
	}
	if _, err := d.open("ann", "beacon", nil); fault.RefusalOf(err).GetCode() != code.TooManyReaders {
		t.Errorf("one viewer more: %v", err)
	}
	d.now.Add(int64(10 * time.Second)) // of those that are done, the last one makes room
	r := d.mustOpen("beacon")
	got, err := d.read(d.ann, r, &logv1.ReadRequest{})
	if err != nil || len(got.GetData()) != logview.PartBytes || int(got.GetPosition()) != logview.PartBytes {
		t.Errorf("a part of %d bytes, %v", len(got.GetData()), err)
	}
}

// A viewer who waits for output keeps the place, also when all are taken.
func TestASessionWithARequestUnderWayMakesNoRoom(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "x\n")
	waits := d.mustOpen("beacon")
	answer := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 4*logview.LongestWait)
	defer cancel()
	go func() {
		for {
			_, err := bus.Ask[*logv1.ReadResponse](ctx, d.ann, topology.LogReadSubject(here, waits),
				&logv1.ReadRequest{Position: 2, Wait: durationpb.New(logview.LongestWait)})
			if fault.RefusalOf(err).GetCode() != code.Busy { // a request that looks whether this one waits came first
				answer <- err
				return
			}
		}
	}()
	polltest.Eventually(t, "the request is under way", func() bool {
		_, err := d.read(d.ann, waits, &logv1.ReadRequest{})
		return fault.RefusalOf(err).GetCode() == code.Busy
	})
	for range logview.MostSessions - 1 {
		d.mustOpen("beacon")
	}
	d.now.Add(int64(10 * time.Second))
	d.mustOpen("beacon") // in place of one that is younger
	d.write("beacon", "y\n")
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if _, err := d.read(d.ann, waits, &logv1.ReadRequest{}); err != nil {
		t.Errorf("the session ended: %v", err)
	}
}

// A person may name any session, and so send on any number of subjects.
func TestRequestsOfOnePersonAreBoundedWhateverSessionTheyName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "x\n")
	r := topology.LogReader{Actor: "bob", Session: ident.New()}
	_, err := bus.Ask[*logv1.OpenResponse](t.Context(), d.registry, topology.LogOpenSubject(here),
		&logv1.OpenRequest{SessionId: r.Session, Actor: r.Actor, Agent: "beacon"})
	if err != nil {
		t.Fatal(err)
	}
	flood := d.bus.RawPerson(t, "ann", topology.Operator)
	const requests = 10_000
	answers, err := flood.SubscribeSync(topology.Inbox("ann") + ".flood")
	if err != nil {
		t.Fatal(err)
	}
	for range requests {
		subject := topology.LogReadSubject(here, topology.LogReader{Actor: "ann", Session: ident.New()})
		if err := flood.PublishRequest(subject, topology.Inbox("ann")+".flood", nil); err != nil {
			t.Fatal(err)
		}
	}
	_ = flood.Flush()
	bob := d.bus.Person(t, "bob", topology.Operator)
	if got, err := d.read(bob, r, &logv1.ReadRequest{}); err != nil || string(got.GetData()) != "x\n" {
		t.Errorf("another person reads %q, %v", got.GetData(), err)
	}
	if n, _, err := answers.Pending(); err != nil || n > requests/2 {
		t.Errorf("%d of %d requests were answered, %v", n, requests, err)
	}
}

func TestASessionHasOneRequestAtATime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("beacon", "x\n")
	r := d.mustOpen("beacon")
	answers := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := d.read(d.ann, r, &logv1.ReadRequest{Position: 2, Wait: durationpb.New(logview.LongestWait)})
			answers <- err
		}()
	}
	if second := <-answers; fault.RefusalOf(second).GetCode() != code.Busy {
		t.Errorf("the second request: %v", second)
	}
	d.write("beacon", "y\n")
	if first := <-answers; first != nil {
		t.Errorf("the first request: %v", first)
	}
}

func TestAnAgentIsAName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := os.WriteFile(filepath.Join(string(d.root), "output.log"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"", "..", "../..", "a/../../..", "beacon\x00"} {
		if _, err := d.open("ann", agent, nil); !fault.Is(err, fault.Invalid) {
			t.Errorf("agent %q: %v", agent, err)
		}
	}
}

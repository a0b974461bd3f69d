package trust_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
)

var (
	logHere  = topology.ServerAddress{Cell: "main", Server: "0197b5a0-0000-7000-8000-000000000001"}
	logThere = topology.ServerAddress{Cell: "main", Server: "0197b5a0-0000-7000-8000-000000000002"}
)

// What another server, a viewer and an operator try on the bus.
func TestNoOtherUserReadsOpensOrAnswersALog(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	r := topology.LogReader{Actor: "ann", Session: ident.New()}
	stop, err := bus.Answer(g.Server(t, logHere.Server, logHere.Cell), topology.LogReadsOf(logHere), "",
		func(_ context.Context, subject string, _ *logv1.ReadRequest) (*logv1.ReadResponse, error) {
			_, by, err := topology.ParseLogReadSubject(subject)
			return &logv1.ReadResponse{Data: []byte("for " + by.Actor)}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	other := g.Raw(t, logThere.Server, logThere.Cell)
	admin := g.RawPerson(t, "mallory", topology.Admin)
	var overheard atomic.Int64
	for _, subject := range []string{
		topology.LogOpenSubject(logHere), topology.LogReadsOf(logHere),
		topology.LogOpenSubjects, topology.LogReadSubjects, "_R_.>", "_INBOX_ann.>", "garrison.>", ">",
	} {
		for _, by := range []*nats.Conn{other, admin} {
			_, _ = by.Subscribe(subject, func(*nats.Msg) { overheard.Add(1) }) // refused by the bus
			_ = by.Flush()
		}
	}
	open, _ := proto.Marshal(&logv1.OpenRequest{SessionId: ident.New(), Actor: "mallory", Agent: "beacon"})
	read, _ := proto.Marshal(&logv1.ReadRequest{})
	for name, try := range map[string]struct {
		by      *nats.Conn
		subject string
		data    []byte
	}{
		"a server opens":                 {other, topology.LogOpenSubject(logHere), open},
		"a server reads":                 {other, topology.LogReadSubject(logHere, r), read},
		"an admin opens":                 {admin, topology.LogOpenSubject(logHere), open},
		"an admin reads as another user": {admin, topology.LogReadSubject(logHere, r), read},
		"a server answers a reply":       {other, "_R_.forged", read},
		"a server writes to the viewer":  {other, topology.Inbox("ann") + ".x", read},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		m, err := try.by.RequestWithContext(ctx, try.subject, try.data)
		if err == nil && m.Header.Get("Status") != "503" {
			t.Errorf("%s: answered with %q", name, m.Data)
		}
		cancel()
	}
	viewer := g.RawPerson(t, "ann", topology.Viewer)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if m, err := viewer.RequestWithContext(ctx, topology.LogReadSubject(logHere, r), read); err == nil {
		t.Errorf("a viewer reads: answered with %q", m.Data)
	}
	ann := g.Person(t, "ann", topology.Operator)
	subject := topology.LogReadSubject(logHere, r)
	got, err := bus.Ask[*logv1.ReadResponse](t.Context(), ann, subject, &logv1.ReadRequest{})
	if err != nil || string(got.GetData()) != "for ann" {
		t.Errorf("the operator reads %q, %v", got.GetData(), err)
	}
	_ = other.Flush()
	_ = admin.Flush()
	if n := overheard.Load(); n > 0 {
		t.Errorf("%d messages were overheard", n)
	}
}

// A server whose executor is another program answers a request more than once, and to other subjects.
func TestAHostileServerAnswersAReaderOnceAndNoOtherPerson(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	hostile := g.Raw(t, logThere.Server, logThere.Cell)
	ann := g.RawPerson(t, "ann", topology.Operator)
	victim := g.RawPerson(t, "victim", topology.Viewer)
	var toAnn, toVictim atomic.Int64
	if _, err := victim.Subscribe(topology.Inbox("victim")+".>", func(*nats.Msg) { toVictim.Add(1) }); err != nil {
		t.Fatal(err)
	}
	_ = victim.Flush()
	const answers = 1000
	flooded := make(chan struct{})
	if _, err := hostile.Subscribe(topology.LogReadsOf(logThere), func(m *nats.Msg) {
		for range answers {
			_ = hostile.Publish(m.Reply, []byte("flood"))
			_ = hostile.Publish(topology.Inbox("victim")+".x", []byte("flood"))
			_ = hostile.Publish(topology.Inbox("ann")+".x", []byte("flood"))
		}
		_ = hostile.Flush()
		close(flooded)
	}); err != nil {
		t.Fatal(err)
	}
	_ = hostile.Flush()
	inbox := topology.Inbox("ann") + ".reading"
	if _, err := ann.Subscribe(topology.Inbox("ann")+".>", func(*nats.Msg) { toAnn.Add(1) }); err != nil {
		t.Fatal(err)
	}
	subject := topology.LogReadSubject(logThere, topology.LogReader{Actor: "ann", Session: ident.New()})
	if err := ann.PublishRequest(subject, inbox, nil); err != nil {
		t.Fatal(err)
	}
	<-flooded
	_ = ann.Flush()
	_ = victim.Flush()
	polltest.Eventually(t, "the answer arrives", func() bool { return toAnn.Load() > 0 })
	_ = ann.Flush()
	if toAnn.Load() != 1 || toVictim.Load() != 0 {
		t.Errorf("%d answers reached the reader, and %d another one", toAnn.Load(), toVictim.Load())
	}
}

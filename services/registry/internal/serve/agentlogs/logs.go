// Package agentlogs opens sessions in which people read the output of agents, and records who reads.
package agentlogs

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/topology"
	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

const (
	// LogsAMinute bounds how many sessions one actor opens, and so the facts about them.
	LogsAMinute = 30
	// opensWithin bounds how long a server may take to open a session.
	opensWithin = 5 * time.Second
	// maxLogLines bounds the lines that a reading begins with; it is more than a server keeps.
	maxLogLines = 10_000_000
)

// API opens sessions in which people read the output of agents.
type API struct {
	records  *records.Records
	presence *beats.Watch
	conn     *bus.Conn
	turns    *pace.Pace
	log      zerolog.Logger
}

// NewAPI returns what answers requests to read the output of an agent.
func NewAPI(r *records.Records, p *beats.Watch, conn *bus.Conn, log zerolog.Logger) *API {
	return &API{
		records: r, presence: p, conn: conn,
		turns: pace.New(LogsAMinute, time.Minute), log: log,
	}
}

// Open records who reads what, and then has the server open a session. It is not safe to run twice: each run is a
// session of its own.
func (a *API) Open(
	ctx context.Context, c bus.Caller, q *registryv1.OpenLogRequest,
) (*registryv1.OpenLogResponse, error) {
	if q.Start.GetLines() > maxLogLines || q.Start.GetSince() != nil && !q.Start.Since.IsValid() {
		return nil, request.Invalid(code.Invalid,
			"a reading begins at %d lines before the end at most, and at a valid time", maxLogLines)
	}
	if _, ok := a.turns.Take(c.Actor); !ok {
		return nil, fault.Refusef(fault.Unavailable, code.Busy,
			"%s opened %d sessions within a minute, which is the most", c.Actor, LogsAMinute).After(time.Minute / 4)
	}
	resp := &registryv1.OpenLogResponse{SessionId: a.records.NewID()}
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, err := a.readable(q)
		if err != nil {
			return nil, err
		}
		resp.ServerId, resp.Cell, resp.ServerName = s.Id, s.Cell, s.Name
		body := &serverv1.LogOpened{Agent: q.Agent, SessionId: resp.SessionId}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Server, s.Id, body)}, nil
	})
	if err != nil {
		return nil, err
	}
	a.log.Info().Str(logs.Server, resp.ServerId).Str(logs.Actor, c.Actor).Str(logs.Agent, q.Agent).
		Msg("output of an agent is read")
	opened, err := a.ask(ctx, resp, &logv1.OpenRequest{
		SessionId: resp.SessionId, Actor: c.Actor, Agent: q.Agent, Start: q.Start,
	})
	if err != nil {
		return nil, err
	}
	resp.Position, resp.End = opened.Position, opened.End
	return resp, nil
}

// readable returns the server of a request, if the agent's output can be read there. It must run inside Read.
func (a *API) readable(q *registryv1.OpenLogRequest) (*serverv1.Server, error) {
	v := a.records.View
	s, err := a.records.Find(q.Server)
	if err != nil {
		return nil, err
	}
	if !server.Managed(s) {
		return nil, request.NotFound(selector.NotAlive(s))
	}
	if _, ok := v.Agent(q.Agent); !ok {
		return nil, request.NotFound(intent.UnknownAgent(v, q.Agent))
	}
	if _, ok := v.Instance(s.Id, q.Agent); !ok {
		return nil, fault.Refusef(fault.NotFound, code.NotInstalled, "agent %s is not installed on server %s",
			q.Agent, s.Name).Try("garrison instance list --on " + s.Name)
	}
	if !server.Believed(s) {
		return nil, fault.Refuse(fault.Conflict, enrol.ShutOut(s))
	}
	if s.Presence == serverv1.Presence_PRESENCE_ONLINE {
		return s, nil
	}
	why := "never connected"
	if last := a.presence.Last(s.Id).At; !last.IsZero() {
		why = "is offline; last seen at " + last.UTC().Format(time.RFC3339)
	} else if s.Presence == serverv1.Presence_PRESENCE_OFFLINE {
		why = "is offline since " + s.Since.AsTime().UTC().Format(time.RFC3339)
	}
	return nil, fault.Refusef(fault.Unavailable, code.ServerOffline, "server %s %s", s.Name, why).
		Try("garrison server show " + s.Name)
}

// ask has a server open a session. What a server says is not believed: of a refusal, only a known code counts.
func (a *API) ask(
	ctx context.Context, at *registryv1.OpenLogResponse, q *logv1.OpenRequest,
) (*logv1.OpenResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, opensWithin)
	defer cancel()
	subject := topology.LogOpenSubject(topology.ServerAddress{Cell: at.Cell, Server: at.ServerId})
	opened, err := bus.Ask[*logv1.OpenResponse](ctx, a.conn, subject, q)
	if err == nil {
		return opened, nil
	}
	switch fault.RefusalOf(err).GetCode() {
	case code.NoOutput:
		return nil, fault.Refusef(fault.NotFound, code.NoOutput, "agent %s has written no output on server %s",
			q.Agent, at.ServerName).Try("garrison explain " + at.ServerName + " " + q.Agent)
	case code.TooManyReaders:
		return nil, fault.Refusef(fault.Conflict, code.TooManyReaders,
			"as many people read output of agents on server %s as it allows", at.ServerName)
	}
	a.log.Warn().Err(err).Str(logs.Server, at.ServerId).Msg("output not opened")
	return nil, fault.Refusef(fault.Unavailable, code.ExecutorSilent, "the executor of server %s does not answer",
		at.ServerName).Try("the same command again; garrison versions")
}

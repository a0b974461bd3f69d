package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Log reads the output of an agent on a server, in a session that the registry recorded and the server opened. It is
// not safe for concurrent use. The server ends the session a minute after the last Read; nothing has to be closed.
type Log struct {
	Marks bool // parts say when they were written

	client   *Client
	subject  string
	server   string
	position uint64
	end      uint64
}

// LogPart is a part of an output.
type LogPart struct {
	Data []byte // as the agent wrote it; empty when there was nothing more
	Cut  bool   // output before it was discarded unread
	// Version is what the server says was started last before the output; empty when it does not know.
	Version string
	// Marks say when the output was written, if that was asked for.
	Marks []*logv1.Mark
}

// OpenLog opens a session. The ledger then has the caller's name, the server, the agent and the time.
func (c *Client) OpenLog(ctx context.Context, q *registryv1.OpenLogRequest) (*Log, error) {
	r, err := Call[*registryv1.OpenLogResponse](ctx, c, q)
	if err != nil {
		return nil, err
	}
	at := topology.ServerAddress{Cell: r.GetCell(), Server: r.GetServerId()}
	return &Log{
		client: c, server: r.GetServerName(), position: r.GetPosition(), end: r.GetEnd(),
		subject: topology.LogReadSubject(at, topology.LogReader{Actor: c.Actor(), Session: r.GetSessionId()}),
	}, nil
}

// Server returns the server's name.
func (l *Log) Server() string { return l.server }

// Position returns the position of the next part, with which another session can go on.
func (l *Log) Position() uint64 { return l.position }

// End returns where the output ended when the session was opened.
func (l *Log) End() uint64 { return l.end }

// Read returns the next part. It waits up to wait for output that is not there yet. The error is NotFound when the
// session ended or the output was removed, and Unavailable when the server does not answer.
func (l *Log) Read(ctx context.Context, wait time.Duration) (LogPart, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+bus.DefaultTimeout)
	defer cancel()
	r, err := bus.Ask[*logv1.ReadResponse](ctx, l.client.conn, l.subject,
		&logv1.ReadRequest{Position: l.position, Wait: durationpb.New(wait), Marks: l.Marks})
	if err != nil {
		return LogPart{}, l.refused(err)
	}
	if r.GetPosition() < l.position && !r.GetCut() {
		return LogPart{}, fault.New(fault.Internal, "server %s answered with output from before the position", l.server)
	}
	l.position = r.GetPosition()
	return LogPart{Data: r.GetData(), Cut: r.GetCut(), Version: r.GetVersion(), Marks: r.GetMarks()}, nil
}

// refused returns an error in words of this side. A server is not believed: of its refusal only a known code counts.
func (l *Log) refused(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	r := fault.RefusalOf(err)
	switch r.GetCode() {
	case code.LogNotOpen:
		return fault.Refusef(fault.NotFound, code.LogNotOpen, "the session with server %s ended", l.server).
			Try("the same command again")
	case code.NoOutput:
		return fault.Refusef(fault.NotFound, code.NoOutput, "the output is no longer on server %s", l.server)
	case code.Busy:
		return fault.Refusef(fault.Unavailable, code.Busy, "server %s has a request of the session under way", l.server)
	}
	if r == nil && fault.Is(err, fault.Unavailable) {
		return fault.New(fault.Unavailable, "server %s does not answer", l.server)
	}
	return fault.New(fault.Internal, "server %s answered with an error that it must not give", l.server)
}

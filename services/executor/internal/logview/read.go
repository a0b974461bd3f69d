package logview

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
)

// read answers with the next part of an output. It is safe to run twice: it changes nothing.
func (v *View) read(ctx context.Context, subject string, q *logv1.ReadRequest) (*logv1.ReadResponse, error) {
	_, by, err := topology.ParseLogReadSubject(subject)
	if err != nil {
		return nil, err
	}
	s, err := v.session(by)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.turn:
	default:
		return nil, fault.Refusef(fault.Unavailable, code.Busy, "the session has a request under way").
			After(time.Second / partsASecond)
	}
	defer func() { s.turn <- struct{}{} }()
	if err := s.await(ctx, int64(q.GetPosition()), min(q.GetWait().AsDuration(), LongestWait)); err != nil {
		return nil, err
	}
	data, next, cut, err := s.output.Read(int64(q.GetPosition()), PartBytes)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Refusef(fault.NotFound, code.NoOutput, "the output is no longer there")
	}
	if err != nil {
		return nil, err
	}
	version, until := s.output.VersionAt(next - int64(len(data)))
	if until < next {
		data, next = data[:int64(len(data))-(next-until)], until
	}
	if err := v.bytes.WaitN(ctx, len(data)); err != nil {
		return nil, fault.New(fault.Unavailable, "read output: %w", err)
	}
	return &logv1.ReadResponse{Data: data, Position: uint64(next), Cut: cut, Version: version}, nil
}

// await waits for the turn of the next part, and up to wait for output behind a position.
func (s *session) await(ctx context.Context, position int64, wait time.Duration) error {
	look := rate.NewLimiter(rate.Every(lookEvery), 1)
	until, cancel := context.WithTimeout(ctx, max(wait, 0))
	defer cancel()
	for {
		end, err := s.output.End()
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err != nil || end != position || look.Wait(until) != nil {
			break
		}
	}
	if err := s.pace.Wait(ctx); err != nil {
		return fault.New(fault.Unavailable, "read output: %w", err)
	}
	return nil
}

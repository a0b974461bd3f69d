package operator

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// check answers about differences: agent same has none, agent again has one until it was upgraded, and without an
// agent there are three, in two parts.
func (f *fakes) check(t testing.TB, s *bus.Service) {
	up := func(agent string) *registryv1.Difference {
		return &registryv1.Difference{
			ServerId: web1, ServerName: "web-1", Agent: agent, Wanted: "1.0.0", Observed: "1.0.0",
			Since: ago(time.Minute), Cause: code.Damaged, Reason: "its files were changed",
			Remedy: registryv1.Remedy_REMEDY_UP, Cure: "garrison up " + agent + "@1.0.0 --on web-1",
			Image: &imagev1.Ref{Id: web2, Version: "1.0.0"},
		}
	}
	away := &registryv1.Difference{
		ServerId: web2, ServerName: "web-2", Wanted: "follows its document", Observed: "offline",
		Since: ago(time.Hour), Cause: code.ServerOffline, Reason: "it does not beat",
		Remedy: registryv1.Remedy_REMEDY_PERSON, Cure: "the machine and its network",
	}
	answer := func(q *registryv1.CheckFleetRequest, rows ...*registryv1.Difference) *registryv1.CheckFleetResponse {
		r := &registryv1.CheckFleetResponse{Servers: 1, Agents: 2, Differences: rows}
		for _, d := range rows {
			r.Causes = append(r.Causes, &registryv1.CauseCount{Cause: d.Cause, Count: 1})
		}
		if q.CountOnly {
			r.Differences = nil
		}
		return r
	}
	handle(t, f, s, "CheckFleet", func(q *registryv1.CheckFleetRequest) (*registryv1.CheckFleetResponse, error) {
		switch {
		case slices.Equal(q.GetOn().GetServers(), []string{web2}):
			return answer(q, up("flaky")), nil
		case q.GetOn() != nil:
			return &registryv1.CheckFleetResponse{}, nil // it means no server
		case q.GetAgent() == "same", q.GetAgent() == "again" && f.upgraded("again"):
			return answer(q), nil
		case q.GetAgent() != "":
			return answer(q, up(q.GetAgent())), nil
		case q.GetPage().GetCursor() == "":
			r := answer(q, up("beacon"))
			r.NextCursor = "second"
			return r, nil
		}
		return answer(q, away), nil
	})
}

// upgraded reports whether an intent upgraded an agent.
func (f *fakes) upgraded(agent string) bool {
	for _, r := range f.intents {
		if r.GetIntent().GetUpgrade().GetAgent() == agent {
			return true
		}
	}
	return false
}

func tombstone(name string) *serverv1.Tombstone {
	return &serverv1.Tombstone{
		ServerId:  ident.From(name),
		Cell:      "main",
		SignedAt:  timestamppb.New(noon),
		Signature: []byte("signed"),
	}
}

// cleanUps takes how clean-ups end; one that came by hand from nowhere is refused.
func (f *fakes) cleanUps(t testing.TB, s *bus.Service) {
	handle(
		t,
		f,
		s,
		"RecordCleanUp",
		func(q *registryv1.RecordCleanUpRequest) (*registryv1.RecordCleanUpResponse, error) {
			o := q.GetOutcome()
			if o.GetServerId() != ident.From("gone-1") || o.GetDryRun() {
				return nil, fault.Refuse(fault.Invalid,
					&apiv1.Refusal{Code: "INVALID", Message: "it is about another server"})
			}
			f.cleaned = &serverv1.CleanUp{
				At:     o.GetAt(),
				Actor:  "ann",
				Via:    q.GetVia(),
				Code:   o.GetRefusal().GetCode(),
				Reason: o.GetRefusal().GetMessage(),
			}
			return &registryv1.RecordCleanUpResponse{}, nil
		},
	)
}

func (f *fakes) withCleanUp(s *serverv1.Server) *serverv1.Server {
	if s.GetName() == "gone-1" {
		s.CleanUp = f.cleaned
	}
	return s
}

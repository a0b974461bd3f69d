package view

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
)

func (v *View) applyServer(f ledger.Fact) bool {
	id := f.Key
	s, known := v.servers.Get(id)
	if known {
		v.servers.Touch(id, f.Sequence)
	}
	next, fit := server.Life.Next(server.StateOf(s.GetLife()), f.Name())
	if !fit {
		return false
	}
	v.Queue.recount(id, -1)
	v.Rows.reviewAwaited(id, func() {
		switch {
		case next == server.Forgotten:
			v.servers.Forget(id) // its document, the tombstone, stays in the stream
			v.refreshes.dropServer(id, v.counts)
		case !known:
			s = &dispatcherv1.ServerRecord{}
			v.servers.Put(id, s, f.Sequence)
			fallthrough
		default:
			s.Life = next.Proto()
			v.changeServer(f, s)
		}
	})
	v.Queue.recount(id, 1)
	v.instances.reviewServer(id)
	v.Queue.review(id)
	return true
}

// changeServer folds the body of a fact that fits; the life of the record is the one after it.
func (v *View) changeServer(f ledger.Fact, s *dispatcherv1.ServerRecord) {
	switch b := f.Body.(type) {
	case *serverv1.Invited:
		s.Cell, s.Labels, s.Environment = b.Cell, b.Labels, b.Environment
	case *serverv1.Enrolled:
		s.Standing, s.Duplicated = serverv1.Standing_STANDING_ENROLLED, false
		s.Epoch, s.DocumentGeneration = server.Epoch(s.Epoch), f.Sequence // it has a document from now on
		v.documents.changed(f.Key, f)
	case *serverv1.Changed:
		s.Labels, s.RuleLabels = server.WithRules(b.Labels, s.RuleLabels)
		s.Environment = b.Environment
		v.documents.changed(f.Key, f)
	case *serverv1.Labelled:
		s.Labels, s.RuleLabels = server.WithRules(server.OwnLabels(s), b.Labels)
		v.documents.changed(f.Key, f)
	case *serverv1.Online:
		s.Presence, s.OnlineSequence, s.OfflineSince = serverv1.Presence_PRESENCE_ONLINE, f.Sequence, nil
	case *serverv1.Offline:
		goOffline(s, f.At)
	case *serverv1.Quarantined:
		s.Standing = serverv1.Standing_STANDING_QUARANTINED
	case *serverv1.Released:
		s.Standing = serverv1.Standing_STANDING_ENROLLED
	case *serverv1.Revoked:
		s.Standing = serverv1.Standing_STANDING_REVOKED
	case *serverv1.Reinstalling:
		s.ResetId = b.IntentId
		v.documents.changed(f.Key, f)
	case *serverv1.Reinstalled:
		s.ResetId = ""
		v.documents.changed(f.Key, f)
	case *serverv1.Dying:
		s.ResetId = ""
		v.refreshes.dropServer(f.Key, v.counts) // only removals are sent to it from now on
		v.documents.changed(f.Key, f)
	case *serverv1.Dead:
		s.Tombstone, s.ResetId = b.Tombstone, ""
		s.Presence, s.OfflineSince = serverv1.Presence_PRESENCE_UNSPECIFIED, nil
		v.refreshes.dropServer(f.Key, v.counts)
		v.documents.changed(f.Key, f)
	default:
		v.documents.applyHistory(f, s)
	}
}

// goOffline records that a server is offline, from the first fact that says so.
func goOffline(s *dispatcherv1.ServerRecord, at time.Time) {
	if s.OfflineSince == nil {
		s.Presence, s.OfflineSince = serverv1.Presence_PRESENCE_OFFLINE, timestamppb.New(at)
	}
}

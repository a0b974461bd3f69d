// Package epoch decides whether a server is ahead of the ledger, as after the restore of a backup:
// whether the server applied a document whose facts the ledger lost.
//
// Guarantees:
//
//  1. A doubt alone records nothing. Settle decides on the proven end of the ledger and on the
//     fact at the place that the server reported.
//  2. The epoch that accepts a loss is above the ledger's and above the server's own.
package epoch

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

// highest bounds the epoch that a server may report, so that a higher one always exists.
const highest = uint64(1) << 62

// Doubt is why a server may be ahead of the ledger.
type Doubt uint8

// The doubts.
const (
	NoDoubt  Doubt = iota
	Beyond         // its epoch, or its generation, is beyond what the view holds
	Unproven       // its executor did not take a document, and the fact of its last one decides
)

// DoubtOf returns the doubt that a beat raises about a server's history. end is the last sequence that the view
// holds. A view that lags raises doubts that Settle dispels.
func DoubtOf(s *serverv1.Server, last presence.Beat, end uint64) Doubt {
	own, reported := server.Epoch(s.GetEpoch()), server.Epoch(last.Place.GetEpoch())
	switch {
	case !server.Managed(s) || s.Ahead != nil || last.At.IsZero() || reported < own:
		return NoDoubt
	case reported > own || last.Place.GetGeneration() > end:
		return Beyond
	case last.Code == code.PlaceUnproven && proto.Equal(s.Confirmed, last.Place):
		return NoDoubt // the document that says so is on its way
	case last.Code == code.LedgerBehind || last.Code == code.PlaceUnproven:
		return Unproven
	}
	return NoDoubt
}

// Settle returns the fact that settles a doubt: the server is ahead, or the ledger confirms its place, or nil when
// nothing is to be recorded. end is the proven end of the ledger; mark is the mark of its fact at the generation that
// the beat reports, or 0 when there is no such fact.
func Settle(s *serverv1.Server, last presence.Beat, end, mark uint64) proto.Message {
	place := last.Place
	lost := &serverv1.Ahead{Place: place, LedgerEnd: end, Code: last.Code}
	switch doubt := DoubtOf(s, last, end); {
	case doubt == NoDoubt:
		return nil
	case doubt == Beyond, place.GetMark() == 0 && last.Code == code.LedgerBehind,
		place.GetMark() != 0 && place.GetMark() != mark:
		return lost
	case last.Code == code.PlaceUnproven:
		return &serverv1.PlaceConfirmed{Place: place}
	}
	return nil // the ledger has the fact: the server read an older document, and a newer one will be written
}

// Next returns the epoch that accepts the loss of a server that is ahead: above the ledger's and its own.
func Next(s *serverv1.Server) uint64 {
	return min(max(server.Epoch(s.GetEpoch()), s.GetAhead().GetPlace().GetEpoch()), highest) + 1
}

// Loss compares what the ledger wants on a server that is ahead with what the server listed last.
func Loss(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) *registryv1.ServerLoss {
	loss := &registryv1.ServerLoss{Server: proto.CloneOf(s)}
	for i := range instances {
		if row := agentLoss(i); row != nil {
			loss.Agents = append(loss.Agents, row)
		} else {
			loss.Same++
		}
	}
	for _, f := range s.GetFound() { // agents whose instances the ledger lost
		if f.GetTrace() == serverv1.Trace_TRACE_INSTANCE && f.GetAgent() != "" {
			loss.Agents = append(loss.Agents, &registryv1.AgentLoss{
				Agent: f.Agent, Found: &imagev1.Ref{Id: f.ImageId, Version: f.Version, Digest: f.Digest},
				FoundSince: f.Since,
			})
		}
	}
	slices.SortStableFunc(loss.Agents, func(a, b *registryv1.AgentLoss) int { return cmp.Compare(a.Agent, b.Agent) })
	return loss
}

// agentLoss returns what accepting would change of one instance; nil when it is as it is wanted.
func agentLoss(i *instancev1.Instance) *registryv1.AgentLoss {
	row := &registryv1.AgentLoss{
		Agent: i.Agent, Wanted: proto.CloneOf(i.Wanted), Found: proto.CloneOf(i.Observed), FoundSince: i.ObservedAt,
	}
	same := instance.SameImage(i.Wanted, i.Observed) &&
		bytes.Equal(i.GetConfiguration().GetDigest(), i.ObservedConfigurationDigest)
	switch {
	case i.Wanted == nil && i.Observed == nil, i.Wanted != nil && same:
		return nil
	case i.Wanted == nil:
		row.Change = registryv1.LossChange_LOSS_CHANGE_REMOVE
	case i.Observed == nil:
		row.Change = registryv1.LossChange_LOSS_CHANGE_INSTALL
	default:
		row.Change = registryv1.LossChange_LOSS_CHANGE_REPLACE
	}
	return row
}

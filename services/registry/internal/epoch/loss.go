package epoch

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

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

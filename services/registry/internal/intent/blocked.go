package intent

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// blocked refuses to bring a build that is blocked, or returns nil. What runs on the server and is not replaced is not
// brought, and an undo goes back to what ran there before.
func (q *question) blocked(have *instancev1.Instance, w want) *apiv1.Refusal {
	if q.ask.Back || q.ask.Intent.GetUndo() != nil || w.candidate != "" {
		return nil
	}
	return blockOf(q.reader, have, w)
}

// blockOf returns the block that refuses to bring what is wanted, or nil.
func blockOf(r Reader, have *instancev1.Instance, w want) *apiv1.Refusal {
	for _, build := range brought(have, w) {
		if b, ok := r.Block(block.ID(build)); ok {
			return Blocked(b)
		}
	}
	return nil
}

// failedElsewhere keeps a default from a build that failed on servers that are alive, and works on none; nil otherwise.
func failedElsewhere(r Reader, a Ask, have *instancev1.Instance, w want) *apiv1.Refusal {
	if !a.ofDefault() {
		return nil
	}
	for _, build := range brought(have, w) {
		s, ok := r.Suspect(block.ID(build))
		if ok && s.Working == 0 && slices.ContainsFunc(s.ServerIds, alive(r)) {
			return failedOnAll(s, w, a.Intent.GetSource().GetEnvironment())
		}
	}
	return nil
}

// alive returns a function that reports whether a server is.
func alive(r Reader) func(id string) bool {
	return func(id string) bool {
		s, ok := r.Server(id)
		return ok && s.Life == serverv1.Life_LIFE_ALIVE
	}
}

// ofDefault reports whether the intent follows from a default of an environment.
func (a Ask) ofDefault() bool {
	return a.Due != nil && a.Intent.GetSource().GetRolloutId() == ""
}

// brought returns the builds that a change brings.
func brought(have *instancev1.Instance, w want) []*blockv1.Build {
	return block.Change{
		Agent: w.agent, Image: w.image, Platform: w.server.GetSysinfo().GetPlatform(),
		Configuration: w.configuration.GetDigest(), NewImage: !runsAndStays(have, w.image),
		Reconfigured: !bytes.Equal(w.configuration.GetDigest(), have.GetObservedConfigurationDigest()),
	}.Brought()
}

// runsAndStays reports whether an image runs on a server and nothing else is wanted there: a build that failed and is
// about to be replaced can still be what runs.
func runsAndStays(have *instancev1.Instance, i *imagev1.Ref) bool {
	return image.Same(have.GetObserved(), i) && (have.GetWanted() == nil || image.Same(have.GetWanted(), i))
}

// BlockedOn returns a function that returns why an intent could not bring again what is wanted of an instance on a
// server, or nil.
func BlockedOn(r Reader, s *serverv1.Server) func(*instancev1.Instance) *apiv1.Refusal {
	return func(i *instancev1.Instance) *apiv1.Refusal {
		if i.Wanted == nil {
			return nil
		}
		return blockOf(r, i, want{server: s, agent: i.Agent, image: i.Wanted, configuration: i.Configuration})
	}
}

// Blocked explains that a block keeps an intent from a server.
func Blocked(b *blockv1.Block) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.Blocked, Message: fmt.Sprintf("%s blocked %s: %s", b.SetBy, block.Words(b.Build), b.Reason),
		Try: "garrison unblock " + ident.Short(b.Id) + " -m WHY",
	}
}

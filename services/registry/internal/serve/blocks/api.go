package blocks

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	blocknoun "github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/page"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// MostBlocks is how many builds are blocked at a time.
const MostBlocks = 1000

// API answers requests about blocks.
type API struct {
	records *records.Records
	log     zerolog.Logger
}

// NewAPI returns what answers requests about blocks.
func NewAPI(r *records.Records, log zerolog.Logger) *API {
	return &API{records: r, log: log}
}

// Add blocks builds. It is safe to run twice: a build that is blocked already stays as it is.
func (a *API) Add(
	ctx context.Context, c bus.Caller, q *registryv1.AddBlocksRequest,
) (*registryv1.AddBlocksResponse, error) {
	if err := blockReason(q.Reason); err != nil {
		return nil, err
	}
	r := a.records
	var builds []*blockv1.Build
	added := 0
	err := r.Change(ctx, func() (drafts []ledger.Draft, err error) {
		if builds, err = a.builds(q); err != nil {
			return nil, err
		}
		for _, b := range builds {
			id := blocknoun.ID(b)
			if _, there := r.View.Block(id); !there {
				drafts = append(drafts, r.ByCaller(c, ledger.Block, id, &blockv1.Block{Build: b, Reason: q.Reason}))
			}
		}
		if n := r.View.BlockCount(); len(drafts) > 0 && n+len(drafts) > MostBlocks {
			return nil, fault.Refusef(fault.Conflict, code.TooMany, "there are %d blocks; %d are the most", n,
				MostBlocks).Try("garrison block list; garrison unblock BLOCK -m WHY")
		}
		added = len(drafts)
		return drafts, nil
	})
	if err != nil {
		return nil, err
	}
	a.log.Info().Str(logs.Agent, q.Agent).Str(logs.Actor, c.Actor).Int(logs.Count, added).Msg("builds blocked")
	resp := &registryv1.AddBlocksResponse{Already: uint32(len(builds) - added)}
	r.Follower.Read(func() {
		for _, b := range builds {
			if have, ok := r.View.Block(blocknoun.ID(b)); ok {
				resp.Blocks = append(resp.Blocks, proto.CloneOf(have))
			}
		}
	})
	return resp, nil
}

// blockReason refuses a reason that says nothing.
func blockReason(reason string) error {
	if strings.TrimSpace(reason) == "" || !request.Printable(reason, intent.MaxNote) {
		return request.Invalid(code.Invalid, "a reason must not be empty, must be printable and have %d bytes at most",
			intent.MaxNote).Try("the same with -m WHY")
	}
	return nil
}

// builds returns what a request names. It must run inside Read.
func (a *API) builds(q *registryv1.AddBlocksRequest) ([]*blockv1.Build, error) {
	v := a.records.View
	if _, ok := v.Agent(q.Agent); !ok {
		return nil, request.NotFound(intent.UnknownAgent(v, q.Agent))
	}
	named := 0
	for _, field := range []string{q.Version, q.ImageId, q.ConfigurationDigest} {
		if field != "" {
			named++
		}
	}
	if named != 1 {
		return nil, request.Invalid(code.Invalid, "name a version, an image or a configuration, and only one of them").
			Try("garrison block " + q.Agent + "@VERSION -m WHY")
	}
	if q.ConfigurationDigest != "" {
		digest, err := hex.DecodeString(q.ConfigurationDigest)
		if err != nil || len(digest) != 32 {
			return nil, request.Invalid(code.Invalid,
				"the digest of a configuration has 64 hexadecimal digits, not %q",
				q.ConfigurationDigest).Try("garrison instance show SERVER " + q.Agent + " -o json")
		}
		return []*blockv1.Build{blocknoun.OfConfiguration(q.Agent, digest)}, nil
	}
	images := v.ImagesNamed(q.Agent, q.Version, q.ImageId)
	if len(images) == 0 || q.ImageId != "" && len(images) > 1 {
		return nil, a.notOne(q, len(images))
	}
	out := make([]*blockv1.Build, 0, len(images))
	for _, i := range images {
		m := i.GetManifest()
		out = append(out, blocknoun.OfImage(q.Agent, image.Ref(m), m.GetPlatform()))
	}
	return out, nil
}

// notOne refuses a version without an image, and the beginning of an id that no image or several have. It must run
// inside Read.
func (a *API) notOne(q *registryv1.AddBlocksRequest, found int) error {
	what := fmt.Sprintf("version %q", q.Version)
	if q.ImageId != "" {
		what = fmt.Sprintf("an id that starts with %q", q.ImageId)
	}
	var known []string
	for _, i := range a.records.View.ImagesNamed(q.Agent, "", "") {
		known = append(known, i.GetManifest().GetVersion())
	}
	refusal := fault.Refusef(fault.NotFound, code.NoMatch, "images of agent %q with %s: %d (%d searched)", q.Agent,
		what, found, len(known)).Try("garrison image list " + q.Agent)
	if q.Version != "" {
		refusal = refusal.Near(nearest.Name(q.Version, slices.Values(known)))
	}
	return refusal
}

// Noun returns how blocks are kept.
func (a *API) Noun() table.Kept {
	return &table.Noun[*blockv1.Block]{
		Name: ledger.Block, OfAgent: true, Get: a.records.View.Block, Ended: a.ended, End: &blockv1.Lifted{},
		Rows: a.rows, Row: proto.CloneOf[*blockv1.Block],
	}
}

// ended returns the block that a request lifts. It must run inside Read.
func (a *API) ended(c bus.Caller, q *registryv1.DeleteRecordRequest) ([]*blockv1.Block, error) {
	if err := blockReason(c.Note); err != nil {
		return nil, err
	}
	b, err := a.named(q.Key)
	return []*blockv1.Block{b}, err
}

// named returns the block with an id, or with the only id that starts so. It must run inside Read.
func (a *API) named(reference string) (*blockv1.Block, error) {
	var found []*blockv1.Block
	for id, b := range a.records.View.Blocks("") {
		if reference != "" && strings.HasPrefix(id, reference) {
			found = append(found, b)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, fault.Refusef(fault.NotFound, code.NotFound, "%d blocks have an id that starts with %q (%d searched)",
		len(found), reference, a.records.View.BlockCount()).Try("garrison block list")
}

// rows returns the blocks that a request lists. It must run inside Read.
func (a *API) rows(after string, q *registryv1.ListRecordsRequest) (iter.Seq2[string, *blockv1.Block], error) {
	v := a.records.View
	if _, ok := v.Agent(q.Agent); !ok && q.Agent != "" {
		return nil, request.NotFound(intent.UnknownAgent(v, q.Agent))
	}
	rows := v.Blocks(after)
	if q.Suspected {
		rows = suspected(v, after)
	}
	return page.Cloned(request.Only(rows, func(b *blockv1.Block) bool {
		return q.Agent == "" || b.GetBuild().GetAgent() == q.Agent
	})), nil
}

// suspected returns the builds that failed and are not blocked, as blocks, which sort after an id. What matters to no
// server is left out. It must run inside Read.
func suspected(v *view.View, after string) iter.Seq2[string, *blockv1.Block] {
	return func(yield func(string, *blockv1.Block) bool) {
		for id, s := range v.Suspects() {
			if id > after && matters(v, s) && !yield(id, suspicion(id, s)) {
				return
			}
		}
	}
}

// matters reports whether a build that failed may still be brought to servers, and failed on one that is alive.
func matters(v *view.View, s *blockv1.Suspect) bool {
	if ref := s.GetBuild().GetImage(); ref != nil {
		if i, ok := v.Image(ref.Id); !ok || i.State != imagev1.State_STATE_ACTIVE {
			return false
		}
	}
	return slices.ContainsFunc(s.ServerIds, func(id string) bool {
		server, _ := v.Server(id)
		return server.GetLife() == serverv1.Life_LIFE_ALIVE
	})
}

// suspicion returns a build that failed as the block that it would be.
func suspicion(id string, s *blockv1.Suspect) *blockv1.Block {
	failed := len(s.ServerIds)
	return &blockv1.Block{
		Id: id, Build: s.Build, Failed: uint32(failed), SetAt: s.LastAt, RolloutId: s.RolloutId,
		ServerIds: s.ServerIds[:min(failed, blocknoun.Named)],
		Reason:    failedReason(failed, s.Working),
	}
}

// Of returns the block of what last failed of an instance, or of what is wanted of it; nil without one. What failed no
// longer matters once something else is on its way. It must run inside Read.
func Of(r *records.Records, i *instancev1.Instance, p *serverv1.Platform) *blockv1.Block {
	for _, ref := range []*imagev1.Ref{i.Failed, i.Wanted} {
		if ref == nil || ref == i.Failed && i.State == instancev1.State_STATE_PENDING {
			continue
		}
		c := blocknoun.Change{
			Agent: i.Agent, Image: ref, Platform: p, Configuration: i.Configuration.GetDigest(), NewImage: true,
		}
		for _, build := range c.Brought() {
			if b, ok := r.View.Block(blocknoun.ID(build)); ok {
				return proto.CloneOf(b)
			}
		}
	}
	return nil
}

package operator

import (
	"regexp"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// dryAnswer is what a service answers to a call of a dry run that it would carry out, or refuse.
func dryAnswer[R proto.Message](q proto.Message) (r R, err error) {
	if q, ok := q.(*registryv1.QuarantineServerRequest); ok && q.GetServer() == web2 {
		return r, web2Revoked()
	}
	if put, ok := q.(*registryv1.PutRecordRequest); ok {
		if rule := put.GetRecord().GetLabelRule(); rule != nil {
			rule.Matches = 2 // each matches two servers
		}
		r, _ = proto.Message(&registryv1.PutRecordResponse{Record: put.GetRecord()}).(R)
	}
	return r, bus.ErrDryRun
}

// has reports whether a call would change nothing: the image is in the catalog.
func (f *fakes) has(q proto.Message) bool {
	image, ok := q.(*catalogv1.CreateImageRequest)
	return ok && f.images[image.GetManifest().GetId()] != nil
}

// reads matches the methods that change nothing.
var readsOnly = regexp.MustCompile("^(About|List|Get|Count|Plan|Missing|Check|Seal|Open)")

// dryOnly registers a method that is called in dry runs alone.
func dryOnly[Q, R proto.Message](t testing.TB, f *fakes, s *bus.Service, method string) {
	handle(t, f, s, method, func(Q) (r R, err error) { return r, unknown("MALFORMED", method, "", "") })
}

// dryRegistry registers what no other test calls.
func (f *fakes) dryRegistry(t testing.TB, s *bus.Service) {
	dryOnly[*registryv1.AcceptLobbyRequest, *registryv1.AcceptLobbyResponse](t, f, s, "AcceptLobby")
	dryOnly[*registryv1.RejectLobbyRequest, *registryv1.RejectLobbyResponse](t, f, s, "RejectLobby")
	dryOnly[*registryv1.AddBlocksRequest, *registryv1.AddBlocksResponse](t, f, s, "AddBlocks")
	dryOnly[*registryv1.ReportExternalRequest, *registryv1.ReportExternalResponse](t, f, s, "ReportExternal")
	dryOnly[*registryv1.AnswerRolloutRequest, *registryv1.AnswerRolloutResponse](t, f, s, "AnswerRollout")
}

func (f *fakes) dryCatalog(t testing.TB, s *bus.Service) {
	dryOnly[*catalogv1.CreateChannelRequest, *catalogv1.CreateChannelResponse](t, f, s, "CreateChannel")
	dryOnly[*catalogv1.DeleteChannelRequest, *catalogv1.DeleteChannelResponse](t, f, s, "DeleteChannel")
	dryOnly[*catalogv1.PromoteImageRequest, *catalogv1.PromoteImageResponse](t, f, s, "PromoteImage")
	dryOnly[*catalogv1.DemoteImageRequest, *catalogv1.DemoteImageResponse](t, f, s, "DemoteImage")
	dryOnly[*catalogv1.DisableImageRequest, *catalogv1.DisableImageResponse](t, f, s, "DisableImage")
	dryOnly[*catalogv1.AddSourceRequest, *catalogv1.AddSourceResponse](t, f, s, "AddSource")
	dryOnly[*catalogv1.RemoveSourceRequest, *catalogv1.RemoveSourceResponse](t, f, s, "RemoveSource")
	dryOnly[*catalogv1.DeleteImageRequest, *catalogv1.DeleteImageResponse](t, f, s, "DeleteImage")
	dryOnly[*catalogv1.ImportAdvisoriesRequest, *catalogv1.ImportAdvisoriesResponse](t, f, s, "ImportAdvisories")
}

func (f *fakes) dryDispatcher(t testing.TB, s *bus.Service) {
	dryOnly[*dispatcherv1.CancelTaskRequest, *dispatcherv1.CancelTaskResponse](t, f, s, "CancelTask")
}

package operator

import (
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func (f *fakes) catalog(t testing.TB, c *bus.Conn) {
	s := service(t, f, c, client.Services[ledger.Catalog], "v1.0.0")
	f.dryCatalog(t, s)
	handle(t, f, s, "ListChannels", func(*catalogv1.ListChannelsRequest) (*catalogv1.ListChannelsResponse, error) {
		return &catalogv1.ListChannelsResponse{Channels: []*channelv1.Channel{{Name: "release", Default: true}}}, nil
	})
	handle(t, f, s, "ListImages", func(*catalogv1.ListImagesRequest) (*catalogv1.ListImagesResponse, error) {
		r := &catalogv1.ListImagesResponse{}
		for _, id := range slices.Sorted(maps.Keys(f.images)) {
			r.Images = append(r.Images, f.images[id])
		}
		return r, nil
	})
	handle(t, f, s, "ListSources", func(*catalogv1.ListSourcesRequest) (*catalogv1.ListSourcesResponse, error) {
		return &catalogv1.ListSourcesResponse{Sources: f.sources}, nil
	})
	handle(t, f, s, "CreateImage", func(q *catalogv1.CreateImageRequest) (*catalogv1.CreateImageResponse, error) {
		f.images[q.GetManifest().GetId()] = &imagev1.Image{
			Manifest: q.GetManifest(),
			State:    imagev1.State_STATE_UNACTIVATED,
			Since:    ago(0),
		}
		return &catalogv1.CreateImageResponse{Image: f.images[q.GetManifest().GetId()]}, nil
	})
	handle(t, f, s, "MissingChunks", func(q *catalogv1.MissingChunksRequest) (*catalogv1.MissingChunksResponse, error) {
		r := &catalogv1.MissingChunksResponse{}
		for n := range f.images[q.GetImageId()].GetManifest().GetBlob().GetChunkDigests() {
			if f.chunks[chunkKey(q.GetImageId(), uint32(n))] == nil {
				r.Chunks = append(r.Chunks, uint32(n))
			}
		}
		return r, nil
	})
	handle(t, f, s, "PutChunk", func(q *catalogv1.PutChunkRequest) (*catalogv1.PutChunkResponse, error) {
		f.chunks[chunkKey(q.GetImageId(), q.GetChunk())] = q.GetContent()
		return &catalogv1.PutChunkResponse{}, nil
	})
	handle(t, f, s, "GetChunk", func(q *catalogv1.GetChunkRequest) (*catalogv1.GetChunkResponse, error) {
		return &catalogv1.GetChunkResponse{Content: f.chunks[chunkKey(q.GetImageId(), q.GetChunk())]}, nil
	})
	handle(t, f, s, "GetImage", func(q *catalogv1.GetImageRequest) (*catalogv1.GetImageResponse, error) {
		for id, i := range f.images {
			if m := i.GetManifest(); id == q.GetImage() || m.GetAgent()+"@"+m.GetVersion() == q.GetImage() {
				return &catalogv1.GetImageResponse{Image: i}, nil
			}
		}
		return nil, unknown("NO_MATCH", "image", q.GetImage(), "")
	})
	handle(t, f, s, "ActivateImage", func(q *catalogv1.ActivateImageRequest) (*catalogv1.ActivateImageResponse, error) {
		i := f.images[q.GetImage()]
		i.State, i.Filled, i.Channels = imagev1.State_STATE_ACTIVE, true, []string{"release"}
		return &catalogv1.ActivateImageResponse{Image: i}, nil
	})
}

func chunkKey(id string, n uint32) string { return id + "." + string(rune('a'+n)) }

// listAvailable answers that the agent beacon has a newer image in prod, and that agents without one have none.
func listAvailable(q *registryv1.ListAvailableRequest) (*registryv1.ListAvailableResponse, error) {
	switch q.GetAgent() {
	case "", "beacon":
	case "web":
		return &registryv1.ListAvailableResponse{}, nil
	default:
		return nil, unknown("UNKNOWN_AGENT", "agent", q.GetAgent(), "beacon")
	}
	return &registryv1.ListAvailableResponse{Available: []*registryv1.Available{{
		Agent: "beacon", Environment: "prod", Channel: "release",
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Version:  "1.1.0", ImageId: "00000000-0000-4000-8000-000000000011",
		BuiltAt: timestamppb.New(noon.Add(-2 * time.Minute)), Instances: 10, Behind: 3,
		Versions: []*registryv1.AvailableVersion{{Version: "1.0.0", Instances: 3}, {Version: "1.1.0", Instances: 7}},
	}}}, nil
}

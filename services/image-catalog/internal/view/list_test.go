package view

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/page"
)

func (w *world) listAll(t *testing.T, q *catalogv1.ListImagesRequest) []string {
	t.Helper()
	var out []string
	for {
		part, err := w.List(q)
		if err != nil {
			t.Fatal(err)
		}
		next := part.Next
		for _, i := range part.Rows {
			if len(i.Manifest.Blob.ChunkDigests) != 0 {
				t.Fatal("chunk digests are listed")
			}
			out = append(out, i.Manifest.Agent+" "+i.Manifest.Version)
		}
		if next == "" {
			return out
		}
		q.Page = &apiv1.Page{Limit: q.GetPage().GetLimit(), Cursor: next}
	}
}

func TestImagesAreListedInPagesByAgentAndVersion(t *testing.T) {
	w := newWorld()
	var want []string
	for _, agent := range []string{"a", "b"} {
		for _, version := range []string{"0.9.0", "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0"} {
			want = append(want, agent+" "+version)
		}
	}
	for _, n := range []int{7, 3, 9, 0, 4, 1, 8, 2, 6, 5} {
		agent, version, _ := strings.Cut(want[n], " ")
		w.active(t, manifest(agent, version, "amd64", want[n]))
	}
	for limit := range uint32(12) {
		if d := cmp.Diff(want, w.listAll(t, &catalogv1.ListImagesRequest{Page: &apiv1.Page{Limit: limit}})); d != "" {
			t.Fatalf("limit %d: %s", limit, d)
		}
	}
	ofB := w.listAll(t, &catalogv1.ListImagesRequest{Agent: "b", Page: &apiv1.Page{Limit: 2}})
	if d := cmp.Diff(want[5:], ofB); d != "" {
		t.Fatal(d)
	}
}

func TestImagesAreFilteredByChannelAndState(t *testing.T) {
	w := newWorld()
	id := w.active(t, manifest("a", "1.0.0", "amd64", "x"))
	w.active(t, manifest("a", "1.1.0", "amd64", "y"))
	unactivated := manifest("a", "1.2.0", "amd64", "z")
	w.image(t, unactivated.Id, &imagev1.Created{Manifest: unactivated})
	w.channel(t, "dev", &channelv1.Created{}, &channelv1.ImageAdded{ImageId: id})
	w.image(t, id, &imagev1.Disabled{})
	for _, c := range []struct {
		q    *catalogv1.ListImagesRequest
		want []string
	}{
		{&catalogv1.ListImagesRequest{Channel: "dev"}, []string{"a 1.0.0"}},
		{&catalogv1.ListImagesRequest{Channel: "release"}, []string{"a 1.0.0", "a 1.1.0"}},
		{&catalogv1.ListImagesRequest{Channel: "release", State: imagev1.State_STATE_ACTIVE}, []string{"a 1.1.0"}},
		{&catalogv1.ListImagesRequest{State: imagev1.State_STATE_UNACTIVATED}, []string{"a 1.2.0"}},
		{&catalogv1.ListImagesRequest{State: imagev1.State_STATE_DISABLED, Agent: "b"}, nil},
	} {
		if d := cmp.Diff(c.want, w.listAll(t, c.q)); d != "" {
			t.Errorf("%v: %s", c.q, d)
		}
	}
	_, err := w.List(&catalogv1.ListImagesRequest{Channel: "stage"})
	if fault.RefusalOf(err).GetCode() != "UNKNOWN_CHANNEL" {
		t.Fatal(err)
	}
}

func TestAPageEndsBeforeItIsTooLargeForAMessage(t *testing.T) {
	w := newWorld()
	for n := range 40 {
		m := manifest("a", "1.0."+strconv.Itoa(n), "amd64", strconv.Itoa(n))
		m.Run = &imagev1.Run{Args: []string{strings.Repeat("x", 60<<10)}}
		w.active(t, m)
	}
	part, err := w.List(&catalogv1.ListImagesRequest{})
	if err != nil || part.Next == "" || proto.Size(&catalogv1.ListImagesResponse{Images: part.Rows}) > 600<<10 {
		t.Fatalf("%d images, next %q, %v", len(part.Rows), part.Next, err)
	}
	if all := w.listAll(t, &catalogv1.ListImagesRequest{}); len(all) != 40 {
		t.Fatalf("%d images listed", len(all))
	}
}

func TestAnImageThatIsLargerThanAnAnswerIsLeftOutByItsID(t *testing.T) {
	w := newWorld()
	large := manifest("a", "1.0.0", "amd64", "large")
	large.Run = &imagev1.Run{Args: []string{strings.Repeat("x", page.Bytes)}}
	w.active(t, large)
	w.active(t, manifest("a", "1.0.1", "amd64", "small"))
	part, err := w.List(&catalogv1.ListImagesRequest{})
	if err != nil || len(part.Rows) != 1 || len(part.LeftOut) != 1 || part.LeftOut[0].Id != large.Id {
		t.Errorf("%d images, left out %v, %v", len(part.Rows), part.LeftOut, err)
	}
}

func TestAForeignCursorIsRefused(t *testing.T) {
	w := newWorld()
	for _, cursor := range []string{"!", "abc", writeCursor("a", "b")} {
		_, err := w.List(&catalogv1.ListImagesRequest{Page: &apiv1.Page{Cursor: cursor}})
		if fault.RefusalOf(err).GetCode() != "INVALID" {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

func TestChannelsAreListedInPagesByName(t *testing.T) {
	w := newWorld()
	want := []string{"a", "b", "c", "d", release}
	for _, n := range []int{3, 1, 0, 2} {
		w.channel(t, want[n], &channelv1.Created{})
	}
	var have []string
	for p := (&apiv1.Page{Limit: 2}); ; {
		part, err := w.Channels(p)
		if err != nil {
			t.Fatal(err)
		}
		next := part.Next
		for _, c := range part.Rows {
			have = append(have, c.Name)
		}
		if next == "" {
			break
		}
		p.Cursor = next
	}
	if !slices.Equal(have, want) {
		t.Fatal(have)
	}
}

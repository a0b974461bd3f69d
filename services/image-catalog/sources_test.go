package catalog

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/seal"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

func TestASourceIsSharedFromItsAdditionToItsRemoval(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	key, _, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	add := func(location string) *sourcev1.Source {
		return must[*catalogv1.AddSourceResponse](c, "AddSource",
			&catalogv1.AddSourceRequest{Name: "site", Location: location, Keys: []string{key}}).Source
	}
	first := add("https://a.example/")
	if again := add("https://a.example/"); !proto.Equal(first, again) {
		t.Errorf("added again: %v, want %v", again, first)
	}
	synced := &sourcev1.Synced{PublishedAt: timestamppb.New(time.Unix(200, 0)), Images: 3, Imported: 2}
	must[*catalogv1.RecordSyncResponse](c, "RecordSync", &catalogv1.RecordSyncRequest{Name: "site", Synced: synced})
	add("https://b.example/")

	all := must[*catalogv1.ListSourcesResponse](c, "ListSources", &catalogv1.ListSourcesRequest{}).Sources
	if len(all) != 1 || all[0].Location != "https://b.example/" || !proto.Equal(all[0].Last, synced) {
		t.Fatalf("listed: %v", all)
	}
	refused[*catalogv1.RecordSyncResponse](c, "RecordSync", &catalogv1.RecordSyncRequest{
		Name: "site", Synced: &sourcev1.Synced{PublishedAt: timestamppb.New(time.Unix(199, 0))},
	}, fault.Conflict, "BAD_SOURCE")
	refused[*catalogv1.RecordSyncResponse](c, "RecordSync", &catalogv1.RecordSyncRequest{
		Name: "site", Synced: &sourcev1.Synced{PublishedAt: timestamppb.New(time.Now().Add(time.Hour))},
	}, fault.Invalid, "BAD_SOURCE")
	refused[*catalogv1.RemoveSourceResponse](c, "RemoveSource", &catalogv1.RemoveSourceRequest{Name: "sit"},
		fault.NotFound, "NOT_FOUND")
	must[*catalogv1.RemoveSourceResponse](c, "RemoveSource", &catalogv1.RemoveSourceRequest{Name: "site"})
	left := must[*catalogv1.ListSourcesResponse](c, "ListSources", &catalogv1.ListSourcesRequest{})
	if len(left.Sources) > 0 {
		t.Errorf("listed after the removal: %v", left)
	}
}

func TestASourceWithoutAKeyOrAPlaceIsRefused(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	key, _, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for code, q := range map[string]*catalogv1.AddSourceRequest{
		"BAD_NAME":      {Name: "a.b", Location: "/srv", Keys: []string{key}},
		"BAD_SOURCE":    {Name: "a", Location: "ftp://example.com/", Keys: []string{key}},
		"BAD_IMAGE_KEY": {Name: "a", Location: "/srv", Keys: []string{"key"}},
	} {
		refused[*catalogv1.AddSourceResponse](c, "AddSource", q, fault.Invalid, code)
	}
	refused[*catalogv1.AddSourceResponse](c, "AddSource", &catalogv1.AddSourceRequest{Name: "a", Location: "/srv"},
		fault.Invalid, "BAD_SOURCE")
}

func TestAPlaceIsAURLWithoutAPasswordOrAnAbsolutePath(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://example.com/garrison": true, "http://127.0.0.1:8080": true, "/srv/images": true,
		"oci://example.com/team/site:stable": true, "oci:///team/site": false,
		"": false, "images": false, "ftp://a/": false, "https://": false, "https://u:p@a/": false,
		"https://a/?t=1": false, "/srv/\x1b[2J": false, "/srv/a\nb": false,
	} {
		if err := checkPlace(text); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", text, err, ok)
		}
	}
}

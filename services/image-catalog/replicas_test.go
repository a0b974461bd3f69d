package catalog

import (
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

func TestOfTwoContentsForOneVersionTwoCatalogsCreateOne(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	cats := []*Catalog{nil, nil}
	cats[0], _ = run(t, b)
	cats[1], _ = run(t, b)
	const versions, contents = 6, 4
	created := make([]int, versions)
	var mu sync.Mutex
	var all sync.WaitGroup
	for v := range versions {
		for n := range contents {
			all.Go(func() {
				s := newSample("a", "1.0."+strconv.Itoa(v), strconv.Itoa(n), 100)
				_, err := cats[n%2].createImage(t.Context(), bus.Caller{Actor: "ada"},
					&catalogv1.CreateImageRequest{Manifest: s.Manifest})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					created[v]++
				case fault.RefusalOf(err).GetCode() != "VERSION_EXISTS":
					t.Errorf("version %d, content %d: %v", v, n, err)
				}
			})
		}
	}
	all.Wait()
	if d := cmp.Diff([]int{1, 1, 1, 1, 1, 1}, created); d != "" {
		t.Fatal(d)
	}
	same := func() bool {
		_, one, err := cats[0].follower.Canonical()
		_, two, err2 := cats[1].follower.Canonical()
		return err == nil && err2 == nil && string(one) == string(two)
	}
	polltest.Eventually(t, "both catalogs have the same view", same)
}

func TestTwoCatalogsCreateOneDefaultChannelAndKnowEachOthersImages(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	one, _ := run(t, b)
	two, _ := run(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	ada := bus.Caller{Actor: "ada"}
	if _, err := one.createImage(t.Context(), ada, &catalogv1.CreateImageRequest{Manifest: s.Manifest}); err != nil {
		t.Fatal(err)
	}
	put := &catalogv1.PutChunkRequest{ImageId: s.Id, Content: s.chunk(0)}
	if _, err := two.putChunk(t.Context(), ada, put); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"channel.created", "image.created"}, facts(t, one.cfg.Conn)); d != "" {
		t.Fatal(d)
	}
}

func TestManyActivationsAtOnceInTwoCatalogsAllSucceed(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	one, _ := run(t, b)
	two, _ := run(t, b)
	c := newClient(t, b)
	var samples []sample
	for n := range 8 {
		samples = append(samples, newSample("a", "1.0."+strconv.Itoa(n), strconv.Itoa(n), 100))
		c.upload(samples[n])
	}
	var all sync.WaitGroup
	for n, s := range samples {
		for _, cat := range []*Catalog{one, two}[n%2:] {
			all.Go(func() {
				q := &catalogv1.ActivateImageRequest{Image: s.Id}
				if _, err := cat.activateImage(t.Context(), bus.Caller{Actor: "ada"}, q); err != nil {
					t.Errorf("image %d: %v", n, err)
				}
			})
		}
	}
	all.Wait()
	// Either catalog answers, and its view may lag behind the other's last fact.
	polltest.Eventually(t, "all images are in the channel",
		func() bool { return len(c.channel("release").ImageIds) == len(samples) })
}

package exposure_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/sbom"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/exposure"
)

func image(agent, version string, channels ...string) exposure.Image {
	return exposure.Image{
		ID: agent + version, Agent: agent, Version: version, Digest: agent + version, Channels: channels,
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, State: imagev1.State_STATE_ACTIVE,
	}
}

func npm(name, version string) sbom.Component {
	return sbom.Component{Ecosystem: "npm", Name: name, Version: version}
}

// advisories has one advisory of one source.
func advisories() *exposure.Advisories {
	return exposure.NewAdvisories([]exposure.Upload{{
		Source: &catalogv1.AdvisorySource{Name: "npm", Advisories: 1},
		Advisories: []*catalogv1.Advisory{{
			Id: "GHSA-aaaa-bbbb-cccc", Aliases: []string{"CVE-2024-1234"},
			Affected: []*catalogv1.Affected{{
				Ecosystem: "npm", Name: "left", Ranges: []*catalogv1.AffectedRange{{Introduced: "0", Fixed: "2.0.0"}},
			}},
		}},
	}})
}

// ask returns the answer about a subject, as VERSION OF THE IMAGE=PACKAGE VERSION>CURE.
func ask(
	t *testing.T, x *exposure.Index, subject string, images ...exposure.Image,
) ([]string, *catalogv1.ListExposedResponse) {
	t.Helper()
	_, queries, err := advisories().Ask(subject)
	if err != nil {
		t.Fatal(err)
	}
	r := &catalogv1.ListExposedResponse{}
	x.Fill(r, images, queries)
	var rows []string
	for _, e := range r.Exposed {
		rows = append(rows, fmt.Sprintf("%s@%s %s %s>%s", e.Agent, e.ImageVersion, e.Package, e.Version, e.Cure))
	}
	r.Exposed = nil
	return rows, r
}

func TestTheCureIsTheNextImageThatIsNotExposed(t *testing.T) {
	images := []exposure.Image{
		image("a", "1.0.0", "release"), image("a", "1.1.0", "release"), image("a", "1.2.0", "beta"),
		image("a", "1.3.0", "release"), image("a", "1.4.0", "release"), image("b", "1.0.0"), image("b", "2.0.0"),
		image("c", "1.0.0"),
	}
	images[4].State = imagev1.State_STATE_DISABLED
	x := exposure.NewIndex()
	for n, version := range []string{"1.0.0", "1.9.9", "2.0.0", "2.1.0", "2.1.0", "1.0.0", "", ""} {
		if n < 6 {
			x.Put(images[n].Digest, []sbom.Component{npm("left", version), npm("other", "1.0.0")}, true)
		}
	}
	x.Put(images[6].Digest, nil, false) // without an SBOM it cures nothing
	want := []string{"a@1.0.0 left 1.0.0>1.3.0", "a@1.1.0 left 1.9.9>1.3.0", "b@1.0.0 left 1.0.0>"}
	for _, subject := range []string{"ghsa-aaaa-bbbb-cccc", "CVE-2024-1234", "left@<2.0.0", "Left@>=1 <2"} {
		rows, r := ask(t, x, subject, images...)
		counts := &catalogv1.ListExposedResponse{Images: 8, ExposedImages: 3, WithoutSbom: 1, Unread: 1}
		if diff := cmp.Diff(want, rows) + cmp.Diff(counts, r, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", subject, diff)
		}
	}
}

func TestADroppedImageIsNotFound(t *testing.T) {
	x, i, j := exposure.NewIndex(), image("a", "1.0.0"), image("a", "2.0.0")
	for range 2 {
		x.Put(i.Digest, []sbom.Component{npm("left", "1.0.0")}, true)
		x.Put(j.Digest, []sbom.Component{npm("left", "1.0.0")}, true)
		if rows, _ := ask(t, x, "left", i, j); len(rows) != 2 {
			t.Errorf("%q", rows)
		}
		x.Keep(map[string]bool{j.Digest: true})
		if rows, _ := ask(t, x, "left", j); len(rows) != 1 {
			t.Errorf("%q", rows)
		}
		x.Drop(j.Digest)
		if rows, r := ask(t, x, "left", i); len(rows) != 0 || r.Unread != 1 {
			t.Errorf("%q, %v", rows, r)
		}
	}
}

func TestASubjectThatCannotBeAskedForIsRefused(t *testing.T) {
	for subject, want := range map[string]string{
		"CVE-2024-9": code.UnknownAdvisory, "GHSA-xxxx-xxxx-xxxx": code.UnknownAdvisory,
		"DSA-9-1":     code.UnknownAdvisory,
		"RHSA-2024:1": code.UnknownAdvisory, "left@below 2": code.Invalid, "left@": code.Invalid, "": code.Invalid,
	} {
		if _, _, err := advisories().Ask(subject); fault.RefusalOf(err).GetCode() != want {
			t.Errorf("%q: %v, want %s", subject, err, want)
		}
	}
}

// BenchmarkExposed asks for a package that a tenth of 10,000 images have at a vulnerable version, of 2,000,000
// components of images in all.
func BenchmarkExposed(b *testing.B) {
	const agents, versions, components = 100, 100, 200
	x, images := exposure.NewIndex(), []exposure.Image{}
	for a := range agents {
		for v := range versions {
			i := image(fmt.Sprint("agent-", a), fmt.Sprintf("1.%d.0", v), "release")
			list := []sbom.Component{npm("left", fmt.Sprintf("1.%d.0", v))}
			for n := range components - 1 {
				list = append(list, npm(fmt.Sprint("p", (n+a)%1000), fmt.Sprintf("%d.0.0", v/10)))
			}
			if images = append(images, i); !x.Put(i.Digest, list, true) {
				b.Fatal("the index is full")
			}
		}
	}
	_, queries, err := advisories().Ask("left@<1.10.0")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r := &catalogv1.ListExposedResponse{}
		if x.Fill(r, images, queries); len(r.Exposed) != agents*versions/10 {
			b.Fatalf("%d rows", len(r.Exposed))
		}
	}
}

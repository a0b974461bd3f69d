package importer

import (
	"context"
	"fmt"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
)

// upload is an image file that the catalog does not have yet.
type upload struct {
	triton.Image
	path string
	id   string
}

// uploadsOf returns which images of a dump the catalog lacks, and which do not fit.
func uploadsOf(
	ctx context.Context, env *cli.Env, dir string, images []triton.Image,
) (out []upload, skipped []declare.Skipped, err error) {
	active := map[string]bool{}
	if len(images) > 0 {
		if active, err = activeImages(ctx, env); err != nil {
			return nil, nil, err
		}
	}
	for _, i := range images {
		u := upload{Image: i, path: within(dir, i.File)}
		f, err := image.Open(u.path)
		if err == nil {
			u.id = f.Manifest().GetId()
			err = fits(i, f.Manifest())
			_ = f.Close()
		}
		switch {
		case err != nil:
			why := err.Error()
			if r := fault.RefusalOf(err); r != nil {
				why = r.GetMessage()
			}
			skipped = append(skipped, declare.Skipped{Kind: "image", Name: i.Agent + "@" + i.Version, Reason: why})
		case !active[u.id]:
			out = append(out, u)
		}
	}
	return out, skipped, nil
}

// fits refuses a file that is another image than the manifest of Triton says.
func fits(i triton.Image, m *imagev1.Manifest) error {
	if m.GetAgent() != i.Agent || m.GetVersion() != i.Version {
		return fmt.Errorf("%s is the image %s@%s", i.File, m.GetAgent(), m.GetVersion())
	}
	return nil
}

// activeImages returns the ids of the images of the catalog that may be installed, or may not by someone's decision.
func activeImages(ctx context.Context, env *cli.Env) (map[string]bool, error) {
	r, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{})
	out := map[string]bool{}
	for _, i := range r.GetImages() {
		out[i.GetManifest().GetId()] = i.GetState() == imagev1.State_STATE_ACTIVE ||
			i.GetState() == imagev1.State_STATE_DISABLED
	}
	return out, err
}

// uploadRows returns the images that are imported, as lines of a plan.
func uploadRows(all []upload) (out []declare.Shown) {
	for _, u := range all {
		out = append(out, declare.Shown{
			Action: "import", Kind: "image", Name: u.Agent + "@" + u.Version, Field: "id", Before: u.UUID, After: u.id,
			Note: u.File,
		})
	}
	return out
}

// upload imports images and activates them. An import that was interrupted continues.
func (f *tritonFlags) upload(ctx context.Context, env *cli.Env, all []upload) error {
	if len(all) == 0 {
		return nil
	}
	what := "import " + listing.Plural(len(all), "image")
	if err := env.Confirm(ctx, f.Yes, what+". Continue?"); err != nil {
		return err
	}
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	for _, u := range all {
		if _, err := c.Import(ctx, u.path, nil); err != nil {
			return err
		}
		if _, err := c.Activate(ctx, u.id, f.channel); err != nil {
			return err
		}
		env.Say("image %s@%s imported and activated", u.Agent, u.Version)
	}
	return nil
}

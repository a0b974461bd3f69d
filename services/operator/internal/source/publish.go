package source

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/listing"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// How long an index is taken.
const (
	defaultValid = 30 * 24 * time.Hour
	mostValid    = 10 * 365 * 24 * time.Hour
)

func publishCommand(env *cli.Env) *cobra.Command {
	var key string
	var o publishing
	var dry bool
	c := &cobra.Command{
		Use: "publish DIR|FILE.tar|oci://HOST/REPOSITORY --key FILE",
		Example: "  garrison source publish /srv/images --channel release --key source.key\n" +
			"  garrison source publish site.tar --agents --key source.key",
		Short: "Write the active images of the catalog into a directory, a file or a registry, as a source for others.",
		Long: `Write the active images of the catalog into a directory, with a signed index. Any web server can serve
the directory, and garrison source add takes it as it is. Publish again before --valid has passed: an expired index
is refused. The directory must be empty, or have an index that the same key signed. Image files that an earlier index
listed, and neither of the last two lists, are deleted; other files stay. Images of Garrison's own programs are left
out: no source brings those. A name that ends in .tar is a bundle: the same in one file. oci://HOST/REPOSITORY[:TAG]
is an artifact in an OCI registry, with the credentials of docker login; the default tag is latest.`,
		Args: cli.Exactly("DIR|FILE.tar|oci://HOST/REPOSITORY"), PreRunE: cli.Prints(env, images),
		RunE: func(c *cobra.Command, a []string) (err error) {
			if o.seed, err = readSeed(key); err != nil {
				return err
			}
			to, err := targetOf(a[0])
			if err != nil {
				return err
			}
			is := " published in "
			if dry {
				is, err = " would be published in ", o.preview(c.Context(), env, to)
			} else {
				err = to.write(c.Context(), o.seed, func(dir string) error { return o.publish(c.Context(), env, dir) })
			}
			if err != nil {
				return err
			}
			env.Say("%s%s%s, until %s", listing.Plural(len(o.index.GetImages()), "image"), is, a[0],
				listing.Stamp(o.index.GetExpiresAt()))
			return output.Show(env.Output, images, o.index, o.index.GetImages())
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "list what would be published; write nothing")
	cli.TextVar(c.Flags(), &key, "key", cli.NotEmpty("file with a key"), "the `FILE` with the secret half of the key "+
		"that signs the index, which garrison image key writes")
	cli.TextVar(c.Flags(), &o.channel, "channel", cli.Name("channel"), "only images in this `CHANNEL`")
	c.Flags().BoolVar(&o.agents, "agents", false, "also the agents of these images, those that they depend on, their "+
		"applications and defaults; secrets are left out")
	cli.TimeVar(c.Flags(), &o.valid, "valid", defaultValid, mostValid, "how `LONG` the index is taken")
	return c
}

// target is where a source is published.
type target interface {
	// check refuses what write refuses to replace, and changes nothing.
	check(ctx context.Context, seed []byte) error
	// write makes the place hold what publish writes into a directory.
	write(ctx context.Context, seed []byte, publish func(dir string) error) error
}

func targetOf(name string) (target, error) {
	switch {
	case strings.HasPrefix(name, artifactScheme):
		return openArtifact(name)
	case filepath.Ext(name) == bundleExtension:
		return bundleFile(name), nil
	}
	return directory(name), nil
}

// publishing is how a source is published.
type publishing struct {
	seed    []byte
	channel string
	agents  bool
	valid   time.Duration

	index *sourcev1.Index // of what is published
}

// publish writes a source into a directory.
func (o *publishing) publish(ctx context.Context, env *cli.Env, dir string) error {
	o.begin(env)
	root, err := openWebRoot(dir, o.seed, o.index)
	if err != nil {
		return err
	}
	defer root.close()
	p := publication{webRoot: root}
	images, err := p.write(ctx, env, o.channel)
	if err != nil {
		return err
	}
	if o.index.Images = images; o.agents {
		if o.index.Declared, err = declared(ctx, env, images); err != nil {
			return err
		}
	}
	return root.publish(o.index)
}

// begin makes the index, without its images.
func (o *publishing) begin(env *cli.Env) {
	now := env.Now()
	o.index = &sourcev1.Index{PublishedAt: timestamppb.New(now), ExpiresAt: timestamppb.New(now.Add(o.valid))}
}

// preview finds what publish would write, and refuses what it refuses of the target.
func (o *publishing) preview(ctx context.Context, env *cli.Env, to target) error {
	if err := to.check(ctx, o.seed); err != nil {
		return err
	}
	o.begin(env)
	all, err := active(ctx, env, o.channel)
	for _, i := range all {
		o.index.Images = append(o.index.Images, listedOf(i))
	}
	return err
}

func readSeed(path string) ([]byte, error) {
	if path == "" {
		return nil, cli.Usage("an index is signed; --key FILE is missing. Try: garrison image key FILE")
	}
	return os.ReadFile(path)
}

// publication is what a directory is to have as a source.
type publication struct{ *webRoot }

// active returns the active images of a channel, or of all channels, but for Garrison's own programs: no source brings
// those.
func active(ctx context.Context, env *cli.Env, channel string) ([]*imagev1.Image, error) {
	all, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{
		Channel: channel, State: imagev1.State_STATE_ACTIVE,
	})
	return slices.DeleteFunc(all.GetImages(), func(i *imagev1.Image) bool {
		return i.GetManifest().GetKind() == agentv1.Kind_KIND_SELF
	}), err
}

// listedOf returns an image as an index lists it, but for its file.
func listedOf(i *imagev1.Image) listed {
	m := i.GetManifest()
	return &sourcev1.Listed{
		ImageId: m.GetId(), Agent: m.GetAgent(), Version: m.GetVersion(), Platform: m.GetPlatform(),
		Channels: i.GetChannels(), SizeBytes: m.GetBlob().GetSizeBytes(),
	}
}

// write writes the files of the active images of a channel, or of all channels.
func (p *publication) write(ctx context.Context, env *cli.Env, channel string) (out []listed, err error) {
	all, err := active(ctx, env, channel)
	if err != nil {
		return nil, err
	}
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		l := listedOf(i)
		if err := p.file(ctx, c, l); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// file completes how the index lists an image. It exports the image unless the directory has its file.
func (p *publication) file(ctx context.Context, c *client.Client, l listed) error {
	whole, err := c.Image(ctx, l.GetImageId()) // a list leaves the digests of chunks out
	if err != nil {
		return err
	}
	m := whole.GetManifest()
	for _, b := range p.before.GetImages() {
		if b.GetImageId() == l.GetImageId() && p.holds(b, m) {
			l.FileDigest, l.SizeBytes = b.GetFileDigest(), b.GetSizeBytes()
			return nil
		}
	}
	return p.export(ctx, c, m, l)
}

// export writes the file of an image, and completes how the index lists it.
func (p *publication) export(ctx context.Context, c *client.Client, m *imagev1.Manifest, l listed) error {
	sum := sha256.New()
	name, err := p.create(imagesDir, func(f *os.File) error {
		err := image.WriteTo(ctx, io.MultiWriter(f, sum), m, func(ctx context.Context, n int) ([]byte, error) {
			q := &catalogv1.GetChunkRequest{ImageId: m.GetId(), Chunk: uint32(n)}
			r, err := client.Call[*catalogv1.GetChunkResponse](ctx, c, q)
			return r.GetContent(), err
		})
		if err != nil {
			return err
		}
		size, err := f.Seek(0, io.SeekCurrent)
		l.SizeBytes = uint64(size)
		return err
	})
	if err != nil {
		return fmt.Errorf("export image %s: %w", m.GetId(), err)
	}
	l.FileDigest = sum.Sum(nil)
	return p.root.Rename(name, fileName(l))
}

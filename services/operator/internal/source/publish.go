package source

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
)

// How long an index is taken.
const (
	defaultValid = 30 * 24 * time.Hour
	mostValid    = 10 * 365 * 24 * time.Hour
)

func publishCommand(env *cli.Env) *cobra.Command {
	var key string
	var o publishing
	c := &cobra.Command{
		Use: "publish DIR|FILE.tar --key FILE",
		Example: "  garrison source publish /srv/images --channel release --key source.key\n" +
			"  garrison source publish site.tar --agents --key source.key",
		Short: "Write the active images of the catalog into a directory or a file, as a source for others.",
		Long: `Write the active images of the catalog into a directory, with a signed index. Any web server can serve
the directory, and garrison source add takes it as it is. Publish again before --valid has passed: an expired index
is refused. The directory must be empty, or have an index that the same key signed. Image files that an earlier index
listed, and neither of the last two lists, are deleted; other files stay. Images of Garrison's own programs are left
out: no source brings those. A name that ends in .tar is a bundle: the same in one file.`,
		Args: cli.Exactly("DIR|FILE.tar"),
		RunE: func(c *cobra.Command, a []string) (err error) {
			if o.seed, err = readSeed(key); err != nil {
				return err
			}
			if filepath.Ext(a[0]) != bundleExtension {
				err = o.publish(c.Context(), env, a[0])
			} else if err = cli.CheckTarget(a[0]); err == nil {
				err = publishBundle(a[0], o.seed, func(dir string) error { return o.publish(c.Context(), env, dir) })
			}
			if err != nil {
				return err
			}
			env.Say("%s published in %s, until %s", listing.Plural(o.images, "image"), a[0],
				env.Now().Add(o.valid).UTC().Format(time.RFC3339))
			return nil
		},
	}
	cli.TextVar(c.Flags(), &key, "key", cli.NotEmpty("file with a key"), "the `FILE` with the secret half of the key "+
		"that signs the index, which garrison image key writes")
	cli.TextVar(c.Flags(), &o.channel, "channel", cli.Name("channel"), "only images in this `CHANNEL`")
	c.Flags().BoolVar(&o.agents, "agents", false, "also the agents of these images, those that they depend on, their "+
		"applications and defaults; secrets are left out")
	cli.TimeVar(c.Flags(), &o.valid, "valid", defaultValid, mostValid, "how `LONG` the index is taken")
	return c
}

// publishing is how a source is published.
type publishing struct {
	seed    []byte
	channel string
	agents  bool
	valid   time.Duration

	images int // that were published
}

// publish writes a source into a directory.
func (o *publishing) publish(ctx context.Context, env *cli.Env, dir string) error {
	now := env.Now()
	index := &sourcev1.Index{PublishedAt: timestamppb.New(now), ExpiresAt: timestamppb.New(now.Add(o.valid))}
	root, err := openWebRoot(dir, o.seed, index)
	if err != nil {
		return err
	}
	defer root.close()
	p := publication{webRoot: root}
	if err := p.write(ctx, env, o.channel); err != nil {
		return err
	}
	if index.Images, o.images = p.images, len(p.images); o.agents {
		if index.Declared, err = declared(ctx, env, p.images); err != nil {
			return err
		}
	}
	return root.publish(index)
}

func readSeed(path string) ([]byte, error) {
	if path == "" {
		return nil, cli.Usage("an index is signed; --key FILE is missing. Try: garrison image key FILE, once")
	}
	return os.ReadFile(path)
}

// publication is what a directory is to have as a source.
type publication struct {
	*webRoot
	images []listed
}

// write writes the files of the active images of a channel, or of all channels.
func (p *publication) write(ctx context.Context, env *cli.Env, channel string) error {
	all, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{
		Channel: channel, State: imagev1.State_STATE_ACTIVE,
	})
	if err != nil {
		return err
	}
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	for _, i := range all.GetImages() {
		if i.GetManifest().GetKind() == agentv1.Kind_KIND_SELF {
			continue // no source may bring a program of Garrison
		}
		l, err := p.file(ctx, c, i.GetManifest().GetId())
		if err != nil {
			return err
		}
		l.Channels = i.GetChannels()
		p.images = append(p.images, l)
	}
	return nil
}

// file returns an image as the index lists it. It exports the image unless the directory has its file.
func (p *publication) file(ctx context.Context, c *client.Client, id string) (listed, error) {
	whole, err := c.Image(ctx, id) // a list leaves the digests of chunks out
	if err != nil {
		return nil, err
	}
	m := whole.GetManifest()
	l := &sourcev1.Listed{
		ImageId: m.GetId(), Agent: m.GetAgent(), Version: m.GetVersion(), Platform: m.GetPlatform(),
	}
	for _, b := range p.before.GetImages() {
		if b.GetImageId() == id && p.holds(b, m) {
			l.FileDigest, l.SizeBytes = b.GetFileDigest(), b.GetSizeBytes()
			return l, nil
		}
	}
	return l, p.export(ctx, c, m, l)
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

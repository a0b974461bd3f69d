package source

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/seal"
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
	var key, channel string
	var valid time.Duration
	c := &cobra.Command{
		Use:     "publish DIR --key FILE",
		Example: "  garrison source publish /srv/images --channel release --key source.key",
		Short:   "Write the active images of the catalog into a directory, as a source for others.",
		Long: `Write the active images of the catalog into a directory, with a signed index. Any web server can serve
the directory, and garrison source add takes it as it is. Publish again before --valid has passed: an expired index
is refused. Image files that neither this index nor the one before lists are deleted.`,
		Args: cli.Exactly("DIR"),
		RunE: func(c *cobra.Command, a []string) error {
			seed, err := readSeed(key)
			if err != nil {
				return err
			}
			p := publication{dir: a[0], before: listedBefore(a[0])}
			if err := p.write(c.Context(), env, channel); err != nil {
				return err
			}
			now := env.Now()
			err = p.sign(seed, &sourcev1.Index{
				PublishedAt: timestamppb.New(now), ExpiresAt: timestamppb.New(now.Add(valid)), Images: p.images,
			})
			if err != nil {
				return err
			}
			env.Say("%s published in %s, until %s", output.Plural(len(p.images), "image"), a[0],
				now.Add(valid).UTC().Format(time.RFC3339))
			return p.prune()
		},
	}
	cli.TextVar(c.Flags(), &key, "key", cli.NotEmpty("file with a key"), "the `FILE` with the secret half of the key "+
		"that signs the index, which garrison image key writes")
	cli.TextVar(c.Flags(), &channel, "channel", cli.Name("channel"), "only images in this `CHANNEL`")
	cli.TimeVar(c.Flags(), &valid, "valid", defaultValid, mostValid, "how `LONG` the index is taken")
	return c
}

func readSeed(path string) ([]byte, error) {
	if path == "" {
		return nil, cli.Usage("an index is signed; --key FILE is missing. Try: garrison image key FILE, once")
	}
	return os.ReadFile(path)
}

// publication is a directory that becomes a source.
type publication struct {
	dir    string
	before []listed // what its index listed
	images []listed
}

// listedBefore returns what the index in a directory lists; nothing when it cannot be read.
func listedBefore(dir string) []listed {
	data, err := os.ReadFile(filepath.Join(dir, indexName))
	signed, index := &sourcev1.SignedIndex{}, &sourcev1.Index{}
	if err != nil || protojson.Unmarshal(data, signed) != nil || protojson.Unmarshal(signed.GetIndex(), index) != nil {
		return nil
	}
	return index.GetImages()
}

// write writes the files of the active images of a channel, or of all channels.
func (p *publication) write(ctx context.Context, env *cli.Env, channel string) error {
	if err := os.MkdirAll(filepath.Join(p.dir, imagesDir), 0o755); err != nil {
		return err
	}
	all, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{
		Channel: channel, State: imagev1.State_STATE_ACTIVE,
	})
	if err != nil {
		return err
	}
	for _, i := range all.GetImages() {
		l, err := p.file(ctx, env, i.GetManifest())
		if err != nil {
			return err
		}
		l.Channels = i.GetChannels()
		p.images = append(p.images, l)
	}
	return nil
}

// file returns an image as the index lists it. It exports the image unless its file is there.
func (p *publication) file(ctx context.Context, env *cli.Env, m *imagev1.Manifest) (listed, error) {
	l := &sourcev1.Listed{
		ImageId: m.GetId(), Agent: m.GetAgent(), Version: m.GetVersion(), Platform: m.GetPlatform(),
	}
	at := slices.IndexFunc(p.before, func(b listed) bool { return b.GetImageId() == m.GetId() })
	if at >= 0 {
		info, err := os.Stat(filepath.Join(p.dir, fileName(p.before[at])))
		if err == nil && uint64(info.Size()) == p.before[at].GetSizeBytes() {
			l.FileDigest, l.SizeBytes = p.before[at].GetFileDigest(), p.before[at].GetSizeBytes()
			return l, nil
		}
	}
	return l, p.export(ctx, env, l)
}

// export writes the file of an image, and completes how the index lists it.
func (p *publication) export(ctx context.Context, env *cli.Env, l listed) error {
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	whole, err := c.Image(ctx, l.GetImageId()) // a list leaves the digests of chunks out
	if err != nil {
		return err
	}
	path := filepath.Join(p.dir, imagesDir, ".new-"+l.GetImageId())
	defer func() { _ = os.Remove(path) }()
	if err := c.Export(ctx, whole.GetManifest(), path, nil); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	l.SizeBytes = uint64(info.Size())
	if l.FileDigest, err = digestOf(path); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o644); err != nil { // a web server reads it
		return err
	}
	return os.Rename(path, filepath.Join(p.dir, fileName(l)))
}

// sign writes the index, in one step.
func (p *publication) sign(seed []byte, index *sourcev1.Index) error {
	text, err := protojson.Marshal(index)
	if err != nil {
		return err
	}
	signed, err := seal.SignIndex(text, seed)
	if err != nil {
		return err
	}
	data, err := protojson.Marshal(signed)
	if err != nil {
		return err
	}
	path := filepath.Join(p.dir, "."+indexName)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(p.dir, indexName))
}

// prune deletes the image files that neither this index nor the one before lists: who reads the one before goes on.
func (p *publication) prune() error {
	kept := map[string]bool{}
	for _, l := range slices.Concat(p.images, p.before) {
		kept[hex.EncodeToString(l.GetFileDigest())+image.Extension] = true
	}
	entries, err := os.ReadDir(filepath.Join(p.dir, imagesDir))
	for _, e := range entries {
		if filepath.Ext(e.Name()) != image.Extension || kept[e.Name()] {
			continue
		}
		gone := os.Remove(filepath.Join(p.dir, imagesDir, e.Name()))
		if gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("delete an old image: %w", gone))
		}
	}
	return err
}

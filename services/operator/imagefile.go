package operator

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/seal"
)

const (
	// chunksAtOnce is how many chunks are under way to the catalog.
	chunksAtOnce = 4
	// chunkTries is how often one chunk is sent before the import stops; it can go on later.
	chunkTries = 4
	// activateWithin bounds the catalog's check of a whole image; the largest has gigabytes.
	activateWithin = 10 * time.Minute
)

func (s *session) imageBuildCommand() *cobra.Command {
	o := image.BuildOptions{}
	var key string
	c := &cobra.Command{
		Use: "build DIR", Short: "Pack a directory with a " + image.RecipeName + " into an image file", Args: exactly("DIR"),
		Long: recipeText,
		Example: "  garrison image build ./beacon\n" +
			"  garrison image build ./beacon --version 1.1.0 -o beacon.gimg",
		RunE: func(_ *cobra.Command, a []string) error {
			o.Dir, o.At = a[0], s.now()
			if key != "" {
				var err error
				if o.Key, err = readKey(key); err != nil {
					return err
				}
			}
			m, err := image.Build(o)
			if err != nil {
				return err
			}
			s.say("image %s@%s built: %s, %s", m.GetAgent(), m.GetVersion(), cmp.Or(o.Out, image.FileName(m)), size(m.GetBlob().GetSizeBytes()))
			return show(s, manifestListing, nil, []manifest{m})
		},
	}
	c.Flags().StringVarP(&o.Out, "output", "o", "", "the image `FILE`; without it AGENT-VERSION-OS-ARCH"+image.Extension)
	textVar(c.Flags(), &key, "key", said("file with a key"), "sign it with the secret half of a key, in this `FILE`")
	textVar(c.Flags(), &o.Version, "version", image.CheckVersion, "the `VERSION`, instead of the recipe's")
	textVar(c.Flags(), &o.OS, "os", image.CheckOS, "the operating `SYSTEM`, instead of the recipe's")
	textVar(c.Flags(), &o.Arch, "arch", image.CheckArch, "the `ARCHITECTURE`, instead of the recipe's")
	return c
}

type manifest = *imagev1.Manifest

// manifestListing shows an image that is a file; it has no state.
var manifestListing = listing[manifest]{
	name: func(m manifest) string { return m.GetId() },
	columns: []column[manifest]{
		{title: "ID", value: func(_ view, m manifest) string { return m.GetId() }},
		{title: "AGENT", value: func(_ view, m manifest) string { return m.GetAgent() }},
		{title: "VERSION", value: func(_ view, m manifest) string { return m.GetVersion() }},
		{title: "PLATFORM", value: func(_ view, m manifest) string { return platform(m.GetPlatform()) }},
		{title: "KIND", value: func(_ view, m manifest) string { return word(m.GetKind()) }},
		{title: "SIZE", value: func(_ view, m manifest) string { return size(m.GetBlob().GetSizeBytes()) }},
		{title: "SIGNED BY", wide: true, value: func(_ view, m manifest) string { return signers(m) }},
		{title: "DIGEST", wide: true, value: func(_ view, m manifest) string { return fmt.Sprintf("%x", m.GetBlob().GetDigest()) }},
	},
}

func (s *session) imageVerifyCommand() *cobra.Command {
	var keys []string
	c := &cobra.Command{
		Use: "verify FILE", Short: "Check every byte of an image file against its manifest", Args: exactly("FILE"),
		RunE: func(c *cobra.Command, a []string) error {
			f, err := image.Open(a[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			if err := f.Verify(c.Context()); err != nil {
				return err
			}
			if len(keys) == 0 {
				return changed(s, manifestListing, f.Manifest(), "%s is whole", a[0])
			}
			if err := seal.Trust(f.Manifest(), keys); err != nil {
				return err
			}
			return changed(s, manifestListing, f.Manifest(), "%s is whole and signed", a[0])
		},
	}
	namesVar(c.Flags(), &keys, "image-key", seal.CheckKey, "the public `KEY` of which it must be signed by one; may be repeated")
	return c
}

func (s *session) imageImportCommand() *cobra.Command {
	var activate bool
	var into string
	c := &cobra.Command{
		Use: "import FILE", Short: "Send an image file to the catalog; goes on where it was interrupted", Args: exactly("FILE"), PreRunE: prints(s, imageListing),
		RunE: func(c *cobra.Command, a []string) error {
			i, err := s.importFile(c.Context(), a[0])
			if err != nil {
				return err
			}
			if !activate && into == "" {
				s.say("to let it be installed: garrison image activate %s", i.GetManifest().GetId())
				return changed(s, imageListing, i, "image %s imported", imageName(i))
			}
			i, err = s.activate(c.Context(), &catalogv1.ActivateImageRequest{Image: i.GetManifest().GetId(), Channel: into})
			if err != nil {
				return err
			}
			return changed(s, imageListing, i, "image %s imported and activated", imageName(i))
		},
	}
	c.Flags().BoolVar(&activate, "activate", false, "let it be installed at once")
	textVar(c.Flags(), &into, "channel", aName("channel"), "activate it in this `CHANNEL`; without it the default one")
	return c
}

// importFile sends what the catalog lacks. The same file again sends nothing.
func (s *session) importFile(ctx context.Context, path string) (imageRow, error) {
	f, err := image.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := f.Verify(ctx); err != nil {
		return nil, err
	}
	m := f.Manifest()
	if _, err := call[*catalogv1.CreateImageResponse](ctx, s, "CreateImage", &catalogv1.CreateImageRequest{Manifest: m}); err != nil {
		return nil, err
	}
	missing, err := call[*catalogv1.MissingChunksResponse](ctx, s, "MissingChunks", &catalogv1.MissingChunksRequest{ImageId: m.GetId()})
	if err != nil {
		return nil, err
	}
	if n := len(missing.GetChunks()); n < f.Chunks() {
		s.say("%d of %s are there already", f.Chunks()-n, plural(f.Chunks(), "chunk"))
	}
	if err := s.sendChunks(ctx, f, missing.GetChunks()); err != nil {
		return nil, fmt.Errorf("import %s (run it again to go on): %w", path, err)
	}
	return s.getImage(ctx, m.GetId())
}

func (s *session) sendChunks(ctx context.Context, f *image.File, chunks []uint32) error {
	line := s.live()
	defer line.end()
	id := f.Manifest().GetId()
	var sent atomic.Uint64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(chunksAtOnce)
	for _, n := range chunks {
		g.Go(func() error {
			data, err := f.Chunk(int(n))
			if err != nil || ctx.Err() != nil {
				return firstError(err, context.Cause(ctx))
			}
			if err := s.sendChunk(ctx, &catalogv1.PutChunkRequest{ImageId: id, Chunk: n, Content: data}); err != nil {
				return err
			}
			done := sent.Add(1)
			line.set("sending %s %d of %s", bar(done, uint64(len(chunks))), done, plural(len(chunks), "chunk"))
			return nil
		})
	}
	return g.Wait()
}

// sendChunk tries again while the catalog is away for a moment. The same chunk twice changes nothing.
func (s *session) sendChunk(ctx context.Context, q *catalogv1.PutChunkRequest) error {
	for try := 1; ; try++ {
		_, err := call[*catalogv1.PutChunkResponse](ctx, s, "PutChunk", q)
		if !fault.Is(err, fault.Unavailable) || try == chunkTries {
			return err
		}
		if err := pause(ctx, time.Duration(try)*500*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, or ends with why the context did.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (s *session) imageExportCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "export IMAGE", Short: "Write an image of the catalog into a file", Args: exactly("IMAGE"),
		RunE: func(c *cobra.Command, a []string) error {
			i, err := s.getImage(c.Context(), a[0])
			if err != nil {
				return err
			}
			path := cmp.Or(out, image.FileName(i.GetManifest()))
			if err := s.fetch(c.Context(), path, i.GetManifest()); err != nil {
				return err
			}
			s.say("image %s exported: %s", imageName(i), path)
			return show(s, manifestListing, nil, []manifest{i.GetManifest()})
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "the `FILE`; without it AGENT-VERSION-OS-ARCH"+image.Extension)
	return c
}

func (s *session) fetch(ctx context.Context, path string, m manifest) error {
	line := s.live()
	defer line.end()
	all := len(m.GetBlob().GetChunkDigests())
	return image.Write(ctx, path, m, func(ctx context.Context, n int) ([]byte, error) {
		r, err := call[*catalogv1.GetChunkResponse](ctx, s, "GetChunk", &catalogv1.GetChunkRequest{ImageId: m.GetId(), Chunk: uint32(n)})
		line.set("fetching %s %d of %s", bar(uint64(n+1), uint64(all)), n+1, plural(all, "chunk"))
		return r.GetContent(), err
	})
}

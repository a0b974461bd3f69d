package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/apply"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// choice is what of a source is looked at.
type choice struct {
	channel string
	keep    int
}

func (w *choice) add(c *cobra.Command) {
	cli.TextVar(c.Flags(), &w.channel, "channel", cli.Name("channel"), "only images in this `CHANNEL` of the source")
	cli.NumberVar(c.Flags(), &w.keep, "keep", "a number of versions", maxListed,
		"only the `N` highest versions of each agent and platform (default: all)")
}

// session is a source that was read.
type session struct {
	source source
	place  place
	index  *sourcev1.Index
	offers []offer
	agents bool // also what the source declares is brought, and shown
}

// read reads the index of a source, and which of its images the catalog has.
func (w *choice) read(ctx context.Context, env *cli.Env, name string) (*session, error) {
	s, err := find(ctx, env, name)
	if err != nil {
		return nil, err
	}
	at, err := placeOf(s.GetLocation())
	if err != nil {
		return nil, err
	}
	index, err := readIndex(ctx, at, s, env.Now())
	if err != nil {
		return nil, err
	}
	if err := checkChannel(name, index, w.channel); err != nil {
		return nil, err
	}
	out := &session{source: s, place: at, index: index}
	for _, l := range choose(index.GetImages(), w.channel, w.keep) {
		have, err := inCatalog(ctx, env, l)
		if err != nil {
			return nil, err
		}
		out.offers = append(out.offers, offer{of: l, in: have})
	}
	return out, nil
}

// inCatalog returns the image of the catalog; nil when it lacks the image or a part of it.
func inCatalog(ctx context.Context, env *cli.Env, l listed) (*imagev1.Image, error) {
	r, err := cli.Call[*catalogv1.GetImageResponse](ctx, env, &catalogv1.GetImageRequest{Image: l.GetImageId()})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if i := r.GetImage(); err != nil || i.GetFilled() || i.GetState() == imagev1.State_STATE_ACTIVE {
		return i, err
	}
	// One that was never activated is whole when no part of it is missing.
	m, err := cli.Call[*catalogv1.MissingChunksResponse](ctx, env,
		&catalogv1.MissingChunksRequest{ImageId: l.GetImageId()})
	if err != nil || len(m.GetChunks()) > 0 {
		return nil, err
	}
	return r.GetImage(), nil
}

// missing returns the images that the catalog lacks.
func (s *session) missing() (out []listed) {
	for _, o := range s.offers {
		if !o.here() {
			out = append(out, o.of)
		}
	}
	return out
}

func syncCommand(env *cli.Env) *cobra.Command {
	var w choice
	var into string
	var agents bool
	var asking apply.Asking
	c := &cobra.Command{
		Use: "sync NAME",
		Example: "  garrison source sync site --dry-run\n" +
			"  garrison source sync site --channel release --keep 3 --activate-in release",
		Short: "Import what the catalog lacks of a source; resumes after an interruption.",
		Long: `Import what the catalog lacks of a source; resumes after an interruption. The images of the source are
listed with whether the catalog has them; with --dry-run, nothing else is done.`,
		Args: cli.Exactly("NAME"), PreRunE: cli.Prints(env, offers), SuggestFor: []string{"test"},
		RunE: func(c *cobra.Command, a []string) error {
			s, err := w.read(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			if err := checkInto(c.Context(), env, into); err != nil {
				return err
			}
			if s.agents = agents; !agents {
				return s.sync(c.Context(), env, into)
			}
			return s.syncAgents(c.Context(), env, into, asking)
		},
	}
	w.add(c)
	asking.Add(c)
	c.Flags().BoolVar(&agents, "agents", false, "also bring agents, applications and defaults to what the source "+
		"declares: show what differs, and ask")
	cli.TextVar(c.Flags(), &into, "activate-in", cli.Name("channel"), "activate the images, also those that the "+
		"catalog has, in this `CHANNEL` of the catalog; disabled ones stay disabled")
	return c
}

// sync imports what the catalog lacks, and activates what a channel lacks of the source's images.
func (s *session) sync(ctx context.Context, env *cli.Env, into string) error {
	name, missing, idle := s.source.GetName(), s.missing(), s.outside(env, into)
	active := listing.Plural(len(missing)+len(idle), "image")
	if env.DryRun {
		text := fmt.Sprintf("import %s of %d from source %s, published %s, which expires %s",
			listing.Plural(len(missing), "image"), len(s.offers), name, listing.Stamp(s.index.GetPublishedAt()),
			listing.Stamp(s.index.GetExpiresAt()))
		if into != "" {
			text += ", and activate " + active + " in channel " + into
		}
		cli.Foresee(env, text)
		return cmp.Or(s.show(env), client.ErrDryRun)
	}
	if b, ok := s.place.(*bundle); ok {
		if err := b.checkAll(ctx, missing); err != nil {
			return err
		}
	}
	refused, err := s.takeAll(ctx, env, missing, into)
	if err != nil {
		return err
	}
	for _, l := range idle {
		if err := activate(ctx, env, l, into, "activated"); err != nil {
			return err
		}
	}
	_, err = cli.Call[*catalogv1.RecordSyncResponse](ctx, env, &catalogv1.RecordSyncRequest{
		Name: name, Synced: &sourcev1.Synced{
			PublishedAt: s.index.GetPublishedAt(), Images: uint32(len(s.index.GetImages())),
			Imported: uint32(len(missing) - refused),
		},
	})
	if err != nil {
		return err
	}
	text := ""
	if into != "" {
		text = ", " + active + " activated in channel " + into
	}
	env.Say("source %s synchronized: %s imported, %d already there%s", name,
		listing.Plural(len(missing)-refused, "image"), len(s.offers)-len(missing), text)
	if err := s.show(env); err != nil {
		return err
	}
	if refused > 0 {
		return cli.Ended(cli.ExitPartly)
	}
	return nil
}

// takeAll imports images, and returns how many are left out because the catalog or this program refuses them.
func (s *session) takeAll(ctx context.Context, env *cli.Env, missing []listed, into string) (refused int, err error) {
	if len(missing) == 0 {
		return 0, nil
	}
	dir, err := cacheDir(env)
	if err != nil {
		return 0, err
	}
	alone, err := lock(dir) // a file that is fetched has one writer
	if err != nil {
		return 0, err
	}
	defer func() { _ = alone.Close() }()
	for _, l := range missing {
		err := s.take(ctx, env, l, dir, into)
		if err != nil && !ofOneImage(err) {
			return refused, err
		}
		if err != nil {
			refused++
			env.Say("image %s@%s is left out: %v", l.GetAgent(), l.GetVersion(), err)
			continue
		}
		s.took(l)
	}
	return refused, nil
}

// ofOneImage reports whether an error is of one image, so that the others can be imported.
func ofOneImage(err error) bool {
	return fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound)
}

// take fetches an image and imports it as any image file. What was fetched is deleted once it is in the catalog.
func (s *session) take(ctx context.Context, env *cli.Env, l listed, dir, into string) error {
	path, err := s.fetch(ctx, env, l, dir)
	if err != nil {
		return err
	}
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	if _, err = c.Import(ctx, path, nil); err != nil {
		return err
	}
	_ = os.Remove(path)
	if into == "" {
		env.Say("image %s@%s imported; to make it installable: garrison image activate %s", l.GetAgent(),
			l.GetVersion(), l.GetImageId())
		return nil
	}
	return activate(ctx, env, l, into, "imported and activated")
}

// fetch downloads the file of an image and shows how far that is.
func (s *session) fetch(ctx context.Context, env *cli.Env, l listed, dir string) (string, error) {
	line := env.Live()
	defer line.End()
	return download(ctx, s.place, l, dir, func(done uint64) {
		line.Set("fetching %s@%s %s %s of %s", l.GetAgent(), l.GetVersion(), listing.Bar(done, l.GetSizeBytes()),
			listing.Size(done), listing.Size(l.GetSizeBytes()))
	})
}

// cacheDir returns the directory of files that were fetched in part.
func cacheDir(env *cli.Env) (string, error) {
	base := cmp.Or(env.Getenv("XDG_CACHE_HOME"), filepath.Join(env.Getenv("HOME"), ".cache"))
	if !filepath.IsAbs(base) {
		return "", errors.New("there is no directory for what is fetched: set HOME or XDG_CACHE_HOME")
	}
	dir := filepath.Join(base, "garrison", "sources")
	return dir, os.MkdirAll(dir, 0o700)
}

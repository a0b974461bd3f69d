package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

type imageRow = *imagev1.Image

var imageListing = listing[imageRow]{
	name: func(i imageRow) string { return i.GetManifest().GetId() },
	columns: []column[imageRow]{
		{title: "ID", value: func(v view, i imageRow) string { return shortID(v, i.GetManifest().GetId()) }},
		{title: "AGENT", value: func(_ view, i imageRow) string { return i.GetManifest().GetAgent() }},
		{title: "VERSION", value: func(_ view, i imageRow) string { return i.GetManifest().GetVersion() }},
		{title: "PLATFORM", value: func(_ view, i imageRow) string { return platform(i.GetManifest().GetPlatform()) }},
		{title: "CHANNELS", value: func(_ view, i imageRow) string { return strings.Join(i.GetChannels(), ",") }},
		{title: "STATE", value: func(_ view, i imageRow) string { return word(i.GetState()) }},
		{title: "SINCE", value: func(v view, i imageRow) string { return age(v, i.GetSince()) }, key: func(i imageRow) string { return stamp(i.GetSince()) }},
		{title: "NEXT", value: func(_ view, i imageRow) string { return imageNext(i) }},
		{title: "REASON", value: func(_ view, i imageRow) string { return i.GetReason() }},
		{title: "SIZE", value: func(_ view, i imageRow) string { return size(i.GetManifest().GetBlob().GetSizeBytes()) },
			key: func(i imageRow) string { return fmt.Sprint(i.GetManifest().GetBlob().GetSizeBytes()) }},
		{title: "KIND", wide: true, value: func(_ view, i imageRow) string { return word(i.GetManifest().GetKind()) }},
		{title: "UNPACKED", wide: true, value: func(_ view, i imageRow) string { return size(i.GetManifest().GetBlob().GetUnpackedSizeBytes()) }},
		{title: "SIGNED BY", wide: true, value: func(_ view, i imageRow) string { return signers(i.GetManifest()) }},
		{title: "PUBLISHED", wide: true, value: func(_ view, i imageRow) string { return stamp(i.GetManifest().GetPublishedAt()) }},
		{title: "DIGEST", wide: true, value: func(_ view, i imageRow) string { return fmt.Sprintf("%x", i.GetManifest().GetBlob().GetDigest()) }},
		{title: "DESCRIPTION", wide: true, value: func(_ view, i imageRow) string { return i.GetManifest().GetDescription() }},
	},
}

// shortID shows the first part of a computed id, which tells it from others; the wide view shows all of it.
func shortID(v view, id string) string {
	if v.wide {
		return id
	}
	return ident.Short(id)
}

func imageNext(i imageRow) string {
	switch {
	case i.GetState() == imagev1.State_STATE_UNACTIVATED && !i.GetFilled():
		return "garrison image import or activate"
	case i.GetState() == imagev1.State_STATE_UNACTIVATED, i.GetState() == imagev1.State_STATE_DISABLED:
		return "garrison image activate"
	}
	return ""
}

func (s *session) imageCommands() *cobra.Command {
	return group("image", "Immutable builds of agents",
		s.imageKeyCommand(), s.imageBuildCommand(), s.imageSignCommand(), s.imageImportCommand(), s.imageExportCommand(), s.imageVerifyCommand(),
		s.imageListCommand(), s.imageShowCommand(), s.imageActivateCommand(), s.imageDisableCommand(),
		s.imageDeleteCommand(), s.imagePromoteCommand())
}

func (s *session) imageListCommand() *cobra.Command {
	var page pageFlags
	q := &catalogv1.ListImagesRequest{}
	c := &cobra.Command{
		Use: "list [AGENT]", Short: "List images", Args: atMost("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				q.Agent = a[0]
			}
			return list(c.Context(), s, page, imageListing, func(ctx context.Context, p *apiv1.Page) (*catalogv1.ListImagesResponse, error) {
				q.Page = p
				return call[*catalogv1.ListImagesResponse](ctx, s, "ListImages", q)
			})
		},
	}
	page.add(c, 0)
	textVar(c.Flags(), &q.Channel, "channel", aName("channel"), "only images in this `CHANNEL`")
	wordVar(c.Flags(), &q.State, "state", "only in this `STATE`")
	return c
}

// getImage finds an image by id, unique prefix or AGENT@VERSION.
func (s *session) getImage(ctx context.Context, name string) (imageRow, error) {
	r, err := call[*catalogv1.GetImageResponse](ctx, s, "GetImage", &catalogv1.GetImageRequest{Image: name})
	return r.GetImage(), err
}

func (s *session) imageShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show IMAGE", Short: "Show everything about an image", Args: exactly("IMAGE"),
		RunE: func(c *cobra.Command, a []string) error {
			i, err := s.getImage(c.Context(), a[0])
			if err != nil {
				return err
			}
			run := i.GetManifest().GetRun()
			return showOne(s, s.view(), imageListing, i,
				[2]string{"TAGS", pairs(i.GetManifest().GetTags())},
				[2]string{"COMMAND", strings.Join(append([]string{run.GetCommand()}, run.GetArgs()...), " ")},
				[2]string{"TAKEOVER", word(run.GetTakeover())},
				[2]string{"SIGNED BY", signers(i.GetManifest())},
				[2]string{"CHUNKS", fmt.Sprint(len(i.GetManifest().GetBlob().GetChunkDigests()))})
		},
	}
}

func (s *session) imageActivateCommand() *cobra.Command {
	q := &catalogv1.ActivateImageRequest{}
	c := &cobra.Command{
		Use: "activate IMAGE", Short: "Check that an image is whole and let it be installed, in a channel", Args: exactly("IMAGE"), PreRunE: prints(s, imageListing),
		RunE: func(c *cobra.Command, a []string) error {
			q.Image = a[0]
			i, err := s.activate(c.Context(), q)
			if err != nil {
				return err
			}
			return changed(s, imageListing, i, "image %s activated", imageName(i))
		},
	}
	textVar(c.Flags(), &q.Channel, "channel", aName("channel"), "the `CHANNEL` it joins; without it the default one")
	return c
}

// activate lets an image be installed. The catalog reads the whole content back first; while it does, it is asked again.
func (s *session) activate(ctx context.Context, q *catalogv1.ActivateImageRequest) (imageRow, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, activateWithin, errWaited)
	defer cancel()
	line := s.live()
	defer line.end()
	for {
		r, err := call[*catalogv1.ActivateImageResponse](ctx, s, "ActivateImage", q)
		if fault.RefusalOf(err).GetCode() != "STILL_CHECKING" {
			return r.GetImage(), err
		}
		line.set("the catalog is checking the content")
		if err := pause(ctx, time.Second); err != nil {
			return nil, s.left(ctx, err, "garrison image activate "+q.GetImage())
		}
	}
}

func imageName(i imageRow) string {
	return i.GetManifest().GetAgent() + "@" + i.GetManifest().GetVersion()
}

func (s *session) imageDisableCommand() *cobra.Command {
	q := &catalogv1.DisableImageRequest{}
	c := &cobra.Command{
		Use: "disable IMAGE", Short: "Keep an image from being newly installed", Args: exactly("IMAGE"), PreRunE: prints(s, imageListing),
		RunE: func(c *cobra.Command, a []string) error {
			q.Image = a[0]
			r, err := call[*catalogv1.DisableImageResponse](c.Context(), s, "DisableImage", q)
			if err != nil {
				return err
			}
			s.say("to undo: garrison image activate %s", r.GetImage().GetManifest().GetId())
			return changed(s, imageListing, r.GetImage(), "image %s disabled", imageName(r.GetImage()))
		},
	}
	c.Flags().StringVar(&q.Reason, "reason", "", "why")
	return c
}

func (s *session) imageDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete IMAGE", Short: "Delete an image that is not active, and its content", Args: exactly("IMAGE"),
		RunE: func(c *cobra.Command, a []string) error {
			_, err := call[*catalogv1.DeleteImageResponse](c.Context(), s, "DeleteImage", &catalogv1.DeleteImageRequest{Image: a[0]})
			return s.deleted("image", a[0], err)
		},
	}
}

func (s *session) imagePromoteCommand() *cobra.Command {
	q := &catalogv1.PromoteImageRequest{}
	c := &cobra.Command{
		Use: "promote IMAGE --channel CHANNEL", Short: "Add an active image to a channel, as its newest", Args: exactly("IMAGE"), PreRunE: prints(s, imageListing),
		RunE: func(c *cobra.Command, a []string) error {
			if q.Channel == "" {
				return usage("--channel is missing: to which channel?")
			}
			q.Image = a[0]
			r, err := call[*catalogv1.PromoteImageResponse](c.Context(), s, "PromoteImage", q)
			if err != nil {
				return err
			}
			return changed(s, imageListing, r.GetImage(), "image %s is the newest of channel %s", imageName(r.GetImage()), q.Channel)
		},
	}
	textVar(c.Flags(), &q.Channel, "channel", aName("channel"), "the `CHANNEL`")
	return c
}

package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/seal"
)

func (s *session) imageKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Make a key that signs images", Args: exactly("FILE"),
		Long: "Make a key that signs images. FILE gets the secret half, and must not be there yet; the public half is printed.\n" +
			"Servers that know it take no image that it did not sign, whatever the bus or a service of Garrison says.",
		Example: "  garrison image key release.key\n" +
			"  garrison image build ./beacon --key release.key\n" +
			"  garrisond --data DIR --image-key PUBLIC-HALF",
		RunE: func(_ *cobra.Command, a []string) error {
			public, seed, err := seal.NewKey()
			if err != nil {
				return err
			}
			if err := writeNew(a[0], append(seed, '\n')); err != nil {
				return err
			}
			s.say("the secret half is in %s; keep it where images are built, and nowhere else", a[0])
			_, err = fmt.Fprintln(s.out, public)
			return err
		},
	}
}

// writeNew writes a secret into a file that is not there yet, or leaves nothing.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and a key is never written over. Try: another name", path)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// readKey reads the secret half of a key.
func readKey(path string) ([]byte, error) {
	seed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--key: there is no file %s. Try: garrison image key %s, which makes a key", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	return seed, nil
}

func (s *session) imageSignCommand() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "sign FILE", Short: "Sign an image file; other keys' signatures stay", Args: exactly("FILE"),
		Example: "  garrison image sign beacon.gimg --key release.key",
		RunE: func(c *cobra.Command, a []string) error {
			if key == "" {
				return usage("which key? Try: garrison image sign FILE --key KEYFILE")
			}
			seed, err := readKey(key)
			if err != nil {
				return err
			}
			m, err := image.SignFile(c.Context(), a[0], seed)
			if err != nil {
				return err
			}
			return changed(s, manifestListing, m, "%s is signed by %s", a[0], signers(m))
		},
	}
	textVar(c.Flags(), &key, "key", said("file with a key"), "the `FILE` with the secret half of a key, from: garrison image key")
	return c
}

// signers says who signed an image.
func signers(m *imagev1.Manifest) string {
	var keys []string
	for _, s := range m.GetSeal().GetSignatures() {
		keys = append(keys, s.GetKey())
	}
	return strings.Join(keys, ", ")
}

package code

// The codes of the image-catalog and of image files.
const (
	UnknownChannel  = "UNKNOWN_CHANNEL"
	DefaultChannel  = "DEFAULT_CHANNEL"
	AmbiguousImage  = "AMBIGUOUS_IMAGE"
	VersionExists   = "VERSION_EXISTS"
	StillChecking   = "STILL_CHECKING"
	Active          = "ACTIVE"
	OtherChunks     = "OTHER_CHUNKS"
	Incomplete      = "INCOMPLETE"
	Corrupt         = "CORRUPT"
	NoSuchChunk     = "NO_SUCH_CHUNK"
	Changed         = "CHANGED"
	Empty           = "EMPTY"
	NotYourImage    = "NOT_YOUR_IMAGE"
	ChunkMissing    = "CHUNK_MISSING"
	ChunkMismatch   = "CHUNK_MISMATCH"
	WrongDigest     = "WRONG_DIGEST"
	WrongID         = "WRONG_ID"
	NotAnImage      = "NOT_AN_IMAGE"
	Truncated       = "TRUNCATED"
	NoRecipe        = "NO_RECIPE"
	BadRecipe       = "BAD_RECIPE"
	UnknownKey      = "UNKNOWN_KEY"
	NoCommand       = "NO_COMMAND"
	UnfitProgram    = "UNFIT_PROGRAM"
	Outside         = "OUTSIDE"
	BadManifest     = "BAD_MANIFEST"
	SpecialFile     = "SPECIAL_FILE"
	TooLarge        = "TOO_LARGE"
	BadVersion      = "BAD_VERSION"
	UnknownPlatform = "UNKNOWN_PLATFORM"
	UnsignedImage   = "UNSIGNED_IMAGE"
	UnknownSigner   = "UNKNOWN_SIGNER"
	BadSignature    = "BAD_SIGNATURE"
	BadImageKey     = "BAD_IMAGE_KEY"
)

var images = []Entry{
	{
		UnknownChannel, by(registry, catalog, cli),
		"No channel has that name.",
		"garrison channel list",
	},
	{
		DefaultChannel, by(catalog),
		"The default channel cannot be deleted.",
		"garrison channel list",
	},
	{
		AmbiguousImage, by(registry, catalog),
		"The reference matches several images. Use more of the id.",
		"garrison image list -o wide",
	},
	{
		VersionExists, by(catalog),
		"Another image has this agent, version and platform. A version is built once; raise it.",
		"garrison image build DIR --version NEXT",
	},
	{
		StillChecking, by(catalog),
		"The catalog is still verifying the stored content; the image becomes active after that.",
		"garrison image activate IMAGE, again",
	},
	{
		Active, by(catalog),
		"The image is active. An image that can be installed cannot be deleted.",
		"garrison image disable IMAGE",
	},
	{
		OtherChunks, by(catalog),
		"The catalog has this image with other chunks than the file's.",
		"garrison image show IMAGE; garrison image verify FILE",
	},
	{
		Incomplete, by(catalog),
		"Some of the image's content is not stored yet.",
		"garrison image import FILE",
	},
	{
		Corrupt, by(catalog),
		"Stored content differed from the manifest and was deleted.",
		"garrison image verify FILE, then garrison image import FILE",
	},
	{
		NoSuchChunk, by(cli, catalog),
		"The image has fewer chunks than the request assumes.",
		"garrison image verify FILE",
	},
	{
		Changed, by(cli),
		"A file changed while it was packed.",
		"garrison image build DIR, again",
	},
	{
		Empty, by(cli),
		"The directory has no file to pack.",
		"garrison image build --help",
	},
	{
		NotYourImage, by(catalog),
		"A server requested an image that its document does not name, such as that of a task that was cancelled " +
			"meanwhile. Nothing was changed.",
		"garrison explain SERVER AGENT; garrison up AGENT --on SERVER",
	},
	{
		ChunkMissing, by(executor),
		"A chunk of the content is not stored. Nothing was changed; an import of the file resumes where it " +
			"stopped.",
		"garrison image import FILE",
	},
	{
		ChunkMismatch, by(executor),
		"The digest of a stored chunk differs from the manifest.",
		"garrison image verify FILE, then garrison image import FILE",
	},
	{
		WrongDigest, by(cli, catalog, executor),
		"The digest of the content differs from the manifest: the content was damaged or changed. Nothing was " +
			"changed on a server.",
		"garrison image verify FILE, then garrison image import FILE; or garrison image build DIR",
	},
	{
		WrongID, by(cli, catalog),
		"The id of the image does not match its content.",
		"garrison image build DIR",
	},
	{
		NotAnImage, by(cli),
		"The file is not an image file.",
		"garrison image build DIR",
	},
	{
		Truncated, by(cli),
		"The file is truncated.",
		"garrison image build DIR, or another copy of the file",
	},
	{
		NoRecipe, by(cli),
		"The directory has no garrison.yaml.",
		"garrison image build --help",
	},
	{
		BadRecipe, by(cli),
		"garrison.yaml cannot be read, or a value in it is not valid.",
		"garrison image build --help",
	},
	{
		UnknownKey, by(cli),
		"garrison.yaml has an unknown key.",
		"garrison image build --help",
	},
	{
		NoCommand, by(cli),
		"The command is not in the directory, or is not executable.",
		"run.command as a path within the directory, with mode 0755",
	},
	{
		UnfitProgram, by(cli),
		"No server of the image's platform can start the command: it is for another machine or operating system, or " +
			"its first line ends with CR LF.",
		"file PROGRAM shows its form; garrison image build DIR --arch ARCH, or save the script with the line end LF",
	},
	{
		Outside, by(cli),
		"A path leads out of the directory, or the image file would be inside it.",
		"relative paths that stay within the directory, and an image file elsewhere",
	},
	{
		BadManifest, by(cli, catalog),
		"A field of the image's manifest is missing or not valid.",
		"garrison image build --help",
	},
	{
		SpecialFile, by(cli, executor),
		"Only files, directories and symbolic links can be packed and unpacked.",
		"the directory without devices, sockets and pipes",
	},
	{
		TooLarge, by(cli, catalog, executor),
		"The image exceeds the size limit.",
		"a smaller directory; garrison image build --help",
	},
	{
		BadVersion, by(cli, catalog),
		"The version is not a semantic version, such as 1.2.3.",
		"--version 1.2.3",
	},
	{
		UnknownPlatform, by(cli, catalog),
		"Garrison does not run on that operating system and architecture.",
		"--os linux --arch amd64",
	},
	{
		UnsignedImage, by(catalog, executor),
		"The image is not signed, but the catalog or the server requires a signature by one of its keys. Nothing " +
			"was changed.",
		"garrison image sign FILE --key KEYFILE, then import it; an image that is already in the catalog needs a " +
			"new version",
	},
	{
		UnknownSigner, by(catalog, executor),
		"No key that the catalog or the server trusts has signed the image. Nothing was changed.",
		"garrison image show IMAGE lists the signers; the file executor/image-keys in the server's root and " +
			"--image-key of the catalog list the trusted keys",
	},
	{
		BadSignature, by(catalog, executor, cli),
		"A signature does not match: the image or the signature was changed after signing. Nothing was changed on" +
			" the server.",
		"garrison image verify FILE --image-key KEY, then garrison image import FILE as a new version",
	},
	{
		BadImageKey, by(cli, catalog, registry, executor),
		"The text is not a key for signing images.",
		"garrison image key FILE",
	},
}

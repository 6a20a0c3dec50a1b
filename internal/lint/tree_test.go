package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/streamdedup/streamdedup"

// root is the repository's, seen from this package's folder, where tests run.
const root = "../.."

// goPackage is a package of this module, files of every platform included.
type goPackage struct {
	path  string // below the module: "filter", "cmd/streamdedup"
	files []*goFile
}

// goFile is one parsed source file.
type goFile struct {
	name string // below the root, with slashes
	test bool
	tool bool // a generator: another package than its folder's, run by go generate
	fset *token.FileSet
	ast  *ast.File
	text []byte
}

// imports lists the paths that a file imports.
func (f *goFile) imports() []string {
	paths := make([]string, 0, len(f.ast.Imports))
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic("BUG: the parser let a bad import path through: " + spec.Path.Value)
		}
		paths = append(paths, p)
	}
	return paths
}

func (f *goFile) at(pos token.Pos) string {
	return f.name + ":" + strconv.Itoa(f.fset.Position(pos).Line)
}

// tree asks go list once for the whole run.
var tree = sync.OnceValues(loadTree)

func packages(t *testing.T) []goPackage {
	t.Helper()
	pkgs, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list found no package")
	}
	return pkgs
}

func loadTree() ([]goPackage, error) {
	const fields = "ImportPath,Name,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles"
	cmd := exec.Command("go", "list", "-e", "-json="+fields, "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}

	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			ImportPath, Name                                             string
			GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := dec.Decode(&listed); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkg := goPackage{path: strings.TrimPrefix(strings.TrimPrefix(listed.ImportPath, module), "/")}
		names := slices.Concat(listed.GoFiles, listed.CgoFiles, listed.IgnoredGoFiles, listed.TestGoFiles, listed.XTestGoFiles)
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(pkg.path), name))
			if errors.Is(err, os.ErrNotExist) {
				continue // removed since go list looked
			} else if err != nil {
				return nil, err
			}
			file, err := parse(path.Join(pkg.path, name), text)
			if err != nil {
				return nil, err
			}
			file.tool = listed.Name != "" && !file.test && file.ast.Name.Name != listed.Name
			pkg.files = append(pkg.files, file)
		}
		pkgs = append(pkgs, pkg)
	}
}

func parse(name string, text []byte) (*goFile, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	return &goFile{
		name: name,
		test: strings.HasSuffix(name, "_test.go"),
		fset: fset,
		ast:  file,
		text: text,
	}, nil
}

// mustParse makes a file of a rule's own test.
func mustParse(t *testing.T, name, text string) *goFile {
	t.Helper()
	file, err := parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// trackedFiles lists what Git has or would add, by name below the root.
var trackedFiles = sync.OnceValues(func() ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name)))
		return err != nil || !info.Mode().IsRegular() // removed in the work tree, or a link
	}), nil
})

func tracked(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a Git work tree: nothing says which files are the project's")
	}
	names, err := trackedFiles()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return names
}

// report fails the test once for each finding.
func report(t *testing.T, findings []string) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

// bites checks a rule against an example: found has one finding for each of
// want, in order, that contains it.
func bites(t *testing.T, found []string, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Errorf("found %d, want %d: %q", len(found), len(want), found)
		return
	}
	for i := range want {
		if !strings.Contains(found[i], want[i]) {
			t.Errorf("finding %d is %q, want it to say %q", i, found[i], want[i])
		}
	}
}

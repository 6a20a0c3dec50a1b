package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// anything marks a package that may import every other: it wires or tests them.
const anything = "..."

// The map of the house, drawn in docs/DESIGN.md: what the shipped files of a
// package may import of this module. An arrow points to a lower layer only, and
// adapters do not know each other. Test files are free: they do not ship.
var houseMap = map[string][]string{
	// What remembers; which CPU a thread runs on; locks and names of files; drawings.
	"filter":            nil,
	"internal/affinity": nil,
	"internal/durable":  nil,
	"internal/chart":    nil,

	// A set that forgets by time; from a record to its hash.
	"window":        {"filter"},
	"internal/keys": {"filter"},

	// Shards, cycles and verdicts; capacity maths.
	"pipeline": {"filter", "window", "internal/keys", "internal/affinity"},
	"sizing":   {"filter", "window"},

	// Adapters: Kafka, durable state, HTTP, files, exact audit, made-up
	// streams, a broker inside the process.
	"internal/kafkaio":  {"filter", "window", "internal/keys", "pipeline"},
	"internal/state":    {"filter", "window", "internal/keys", "pipeline", "internal/durable"},
	"internal/admin":    {"filter", "window", "internal/keys", "pipeline"},
	"internal/files":    {"filter", "window", "internal/keys", "pipeline", "internal/durable"},
	"internal/audit":    {"filter", "window", "internal/keys"},
	"internal/survey":   {"filter", "internal/keys", "sizing"},
	"internal/workload": {"filter", "window", "internal/keys"},
	"internal/embedded": nil,

	// Workloads and reports as a library.
	"bench": {
		"filter", "window", "internal/keys", "pipeline", "sizing",
		"internal/kafkaio", "internal/state", "internal/admin", "internal/files", "internal/audit", "internal/workload", "internal/embedded",
		"internal/chart",
	},

	// The command wires all of it.
	"cmd/streamdedup": {anything},

	// Not shipped.
	"filter/internal/simulate": {"filter"},
	"filter/internal/geometry": {"filter", "filter/internal/simulate"},
	"internal/kafkatest":       nil,
	"internal/e2e":             {anything},
	"internal/chaos":           {anything},
	"internal/lint":            nil,
	"bench/sizecheck":          {anything},
	"bench/measured":           {anything},
}

// testOnly are packages that nothing shipped may import, whatever the map says.
var testOnly = []string{"filter/internal/simulate", "filter/internal/geometry", "internal/kafkatest", "internal/e2e", "internal/chaos", "internal/lint", "bench/sizecheck", "bench/measured"}

func TestLayers(t *testing.T) {
	for _, pkg := range packages(t) {
		report(t, checkLayers(houseMap, pkg))
	}
}

func checkLayers(house map[string][]string, pkg goPackage) []string {
	allowed, known := house[pkg.path]
	if !known {
		return []string{fmt.Sprintf("package %s is not on the map: add it to docs/DESIGN.md and to houseMap in internal/lint/layers_test.go", pkg.path)}
	}
	var found []string
	for _, file := range pkg.files {
		if file.test || file.tool {
			continue
		}
		for _, imp := range file.imports() {
			below, ours := strings.CutPrefix(imp, module+"/")
			switch {
			case !ours:
			case slices.Contains(testOnly, below) && !slices.Contains(testOnly, pkg.path):
				found = append(found, fmt.Sprintf("%s imports %s, which is for tests only", file.name, below))
			case !slices.Contains(allowed, below) && !slices.Contains(allowed, anything):
				found = append(found, fmt.Sprintf("%s imports %s: %s may import only %q (docs/DESIGN.md)", file.name, below, pkg.path, allowed))
			}
		}
	}
	return found
}

func TestLayersBites(t *testing.T) {
	house := map[string][]string{"low": nil, "high": {"low"}, "cmd": {anything}}
	f := func(pkgPath, name, imports string, want ...string) {
		t.Helper()
		file := mustParse(t, path.Join(pkgPath, name), "package p\n"+imports)
		bites(t, checkLayers(house, goPackage{path: pkgPath, files: []*goFile{file}}), want...)
	}
	const low, high, kafkatest = `import "` + module + `/low";`, `import "` + module + `/high";`, `import "` + module + `/internal/kafkatest";`
	f("high", "a.go", low+`import "sync"`)
	f("low", "a.go", high, "low/a.go imports high")
	f("low", "a_test.go", high)
	f("cmd", "a.go", low+high)
	f("cmd", "a.go", kafkatest, "for tests only")
	f("new", "a.go", "", "package new is not on the map")
}

// The drawing in docs/DESIGN.md has a line for each package that ships.
func TestMapIsDrawn(t *testing.T) {
	design, err := os.ReadFile(filepath.Join(root, "docs", "DESIGN.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shipped []string
	for _, pkg := range packages(t) {
		if !slices.Contains(testOnly, pkg.path) {
			shipped = append(shipped, pkg.path)
		}
	}
	report(t, checkDrawn(string(design), shipped))
}

func checkDrawn(design string, shipped []string) []string {
	var found []string
	for _, pkg := range shipped {
		if !strings.Contains(design, "\n    "+pkg+" ") {
			found = append(found, fmt.Sprintf("docs/DESIGN.md does not draw package %s: give it a line on the map", pkg))
		}
	}
	return found
}

func TestMapIsDrawnBites(t *testing.T) {
	const design = "# The map\n\n    cmd/x   the command\n    filter  what remembers\n"
	bites(t, checkDrawn(design, []string{"cmd/x", "filter"}))
	bites(t, checkDrawn(design, []string{"filter", "window"}), "does not draw package window")
}

// A map that contradicted itself would allow what it forbids.
func TestHouseMapHasNoCycle(t *testing.T) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(trail []string, pkg string)
	visit = func(trail []string, pkg string) {
		trail = append(trail, pkg)
		switch state[pkg] {
		case visiting:
			t.Errorf("the map has a cycle: %s", strings.Join(trail, " -> "))
			return
		case done:
			return
		}
		state[pkg] = visiting
		for _, below := range houseMap[pkg] {
			if _, known := houseMap[below]; !known && below != anything {
				t.Errorf("%s may import %s, which is not on the map", pkg, below)
			}
			visit(trail, below)
		}
		state[pkg] = done
	}
	for _, pkg := range slices.Sorted(maps.Keys(houseMap)) {
		visit(nil, pkg)
	}
}

// The Kafka client has one home among the layers. Whoever else could hold one
// could also commit behind the transaction's back.
var (
	clientHomes = []string{"internal/kafkaio", "internal/kafkatest", "internal/e2e", "internal/chaos", "bench"}

	// clientNames are the identifiers that hold a client or make one.
	clientNames = map[string][]string{
		"github.com/twmb/franz-go/pkg/kgo":  {"Client", "NewClient", "GroupTransactSession", "NewGroupTransactSession"},
		"github.com/twmb/franz-go/pkg/kadm": {"Client", "NewClient", "NewOptClient"},
	}
)

func TestKafkaClientHasOneHome(t *testing.T) {
	for _, pkg := range packages(t) {
		if slices.ContainsFunc(clientHomes, func(home string) bool { return pkg.path == home || strings.HasPrefix(pkg.path, home+"/") }) {
			continue
		}
		for _, file := range pkg.files {
			if !file.test {
				report(t, checkNoClient(file))
			}
		}
	}
}

func checkNoClient(file *goFile) []string {
	var found []string
	ast.Inspect(file.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		for imp, names := range clientNames {
			if file.isName(sel, imp) && slices.Contains(names, sel.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: %s.%s belongs to %s", file.at(sel.Pos()), path.Base(imp), sel.Sel.Name, clientHomes[0]))
			}
		}
		return true
	})
	return found
}

func TestKafkaClientBites(t *testing.T) {
	const kgo = `"github.com/twmb/franz-go/pkg/kgo"`
	f := func(text string, want ...string) {
		t.Helper()
		bites(t, checkNoClient(mustParse(t, "a.go", "package p\n"+text)), want...)
	}
	f(`import ` + kgo + "\nvar r kgo.Record")
	f(`import `+kgo+"\nvar c *kgo.Client", "a.go:3: kgo.Client belongs to internal/kafkaio")
	f(`import k `+kgo+"\nvar c, _ = k.NewClient()", "kgo.NewClient")
	f(`import kgo "example.com/other"` + "\nvar c kgo.Client")
}

// isName reports whether sel is a name of the package imported from imp.
func (f *goFile) isName(sel *ast.SelectorExpr, imp string) bool {
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return false
	}
	for i, path := range f.imports() {
		if path != imp {
			continue
		}
		local := importedAs(f.ast.Imports[i], path)
		return x.Name == local
	}
	return false
}

func importedAs(spec *ast.ImportSpec, imp string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(imp)
}

package com.github.streamdedup.peers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;

/** The folder that a stream processor keeps its state in. */
public final class StateFolder {
    private StateFolder() {}

    /** Removes what a run that was killed left, and has the folder removed when this process ends. */
    public static void claim(Path folder) throws IOException {
        remove(folder);
        Files.createDirectories(folder);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                remove(folder);
            } catch (IOException e) {
                System.err.println("remove " + folder + ": " + e);
            }
        }));
    }

    /** The size of RocksDB's tables; its logs and options are left out, which would weigh on short runs. */
    public static long tableBytes(Path folder) throws IOException {
        try (var files = Files.walk(folder)) {
            return files.filter(f -> f.toString().endsWith(".sst")).mapToLong(StateFolder::size).sum();
        }
    }

    private static long size(Path file) {
        try {
            return Files.size(file);
        } catch (NoSuchFileException e) {
            return 0; // compacted away meanwhile
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void remove(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        Files.walkFileTree(folder, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.deleteIfExists(file);
                return FileVisitResult.CONTINUE;
            }

            // RocksDB may take a file away while the folder is walked through.
            @Override
            public FileVisitResult visitFileFailed(Path file, IOException e) throws IOException {
                if (e instanceof NoSuchFileException) {
                    return FileVisitResult.CONTINUE;
                }
                throw e;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path dir, IOException e) throws IOException {
                if (e != null) {
                    throw e;
                }
                Files.deleteIfExists(dir);
                return FileVisitResult.CONTINUE;
            }
        });
    }
}

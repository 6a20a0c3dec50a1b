package com.github.streamdedup.peers;

/** The main of a peer, which ends its process: threads of a stream processor may outlive it. */
public final class Program {
    private Program() {}

    /** A peer's work; what it returns is printed. */
    public interface Peer {
        String run(Job job) throws Exception;
    }

    public static void run(String[] args, Peer peer) {
        int status = 0;
        try {
            Job job = Job.parse(args);
            StateFolder.claim(job.state());
            System.out.println(peer.run(job));
        } catch (Exception e) {
            e.printStackTrace();
            status = 1;
        }
        System.exit(status);
    }
}
